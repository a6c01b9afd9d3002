package guard_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// scriptsSeen is a hook that notes whether a script was called.
type scriptsSeen struct{ atomic.Bool }

// DialHook implements redis.Hook.
func (*scriptsSeen) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *scriptsSeen) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			s.Store(true)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (*scriptsSeen) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A client with TLS leads to a port without: the error says so.
func TestNew_TLSAtAPlainPort(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	o, err := redis.ParseURL("rediss://" + s.Addr())
	require.NoError(t, err)
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	err = testenv.GuardOn(t, client).WithLock(t.Context(), guard.Key("k"), nothing)
	require.ErrorIs(t, err, guard.ErrStore)
	require.ErrorContains(t, err, s.Addr()+" (TLS)")
}

// ExampleOnClient has a hook of the caller's see the commands that a Guard sends.
func ExampleOnClient() {
	server, _ := embedded.Start()
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	seen := new(scriptsSeen)
	g, _ := guard.New(client,
		guard.OnClient(func(client redis.UniversalClient) { client.AddHook(seen) })) // or redisotel.InstrumentTracing(client)
	defer g.Close()

	_ = g.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error { return nil })
	fmt.Println(seen.Load())
	// Output: true
}
