package guard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// commandLog is a hook that notes the names of commands.
type commandLog struct {
	mu    sync.Mutex
	names []string
}

func (l *commandLog) note(cmds ...redis.Cmder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range cmds {
		l.names = append(l.names, cmd.Name())
	}
}

func (l *commandLog) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.names, name)
}

// DialHook implements redis.Hook.
func (*commandLog) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (l *commandLog) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.note(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (l *commandLog) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l.note(cmds...)
		return next(ctx, cmds)
	}
}

// A hook that OnClient adds sees the Guard's commands, those of renewals as well; one of the given client sees none.
func TestOnClient_AHookSeesTheCommands(t *testing.T) {
	t.Parallel()
	var calls, all, given commandLog
	clients := 0
	client := redistest.Start(t).Client(t)
	client.AddHook(&given)
	seen := testenv.NewWatcher()
	g := testenv.GuardOn(t, client, guard.Observe(seen),
		guard.OnClient(func(c redis.UniversalClient) {
			if clients++; clients == 1 {
				c.AddHook(&calls)
			}
		}),
		guard.OnClient(func(c redis.UniversalClient) { c.AddHook(&all) }))
	assert.Equal(t, 2, clients)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		seen.More(t, guard.EventRenewal, 1)
		return ctx.Err()
	}, guard.TTL(200*time.Millisecond)))
	assert.True(t, calls.has("evalsha"))
	assert.Greater(t, len(all.names), len(calls.names), "renewals and the subscription have a client of their own")
	assert.Empty(t, given.names)
}

func TestOnClient_Bounds(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	_, err := guard.New(client, guard.OnClient(nil))
	require.EqualError(t, err, "guard: OnClient was given a nil function")
	_, err = guard.NewWithStore(guardtest.NewStore(), guard.OnClient(func(redis.UniversalClient) {}))
	require.ErrorContains(t, err, "OnClient is for New")
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
	seen := new(commandLog)
	g, _ := guard.New(client,
		guard.OnClient(func(client redis.UniversalClient) { client.AddHook(seen) })) // or redisotel.InstrumentTracing(client)
	defer g.Close()

	_ = g.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error { return nil })
	fmt.Println(seen.has("evalsha"))
	// Output: true
}
