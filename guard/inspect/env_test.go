package inspect_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// patience is how long a test waits for what must happen.
const patience = 15 * time.Second

// env is a Redis that is inspected.
type env struct {
	*testing.T
	*inspect.Inspector

	server *redistest.Server
	rdb    *redis.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	return &env{t, inspect.New(rdb), s, rdb}
}

// onEachRedis runs a test on the embedded Redis, which knows no scripts that only read, and on a real one.
func onEachRedis(t *testing.T, test func(r *env)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		rdb := guardtest.NewRedis(t)
		test(&env{t, inspect.New(rdb), nil, rdb})
	})
	t.Run("real", func(t *testing.T) { test(newEnv(t)) })
}

// with is another Inspector in the place of the env's own.
func (r *env) with(i *inspect.Inspector) *env { return &env{r.T, i, r.server, r.rdb} }

func guardOn(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// guard is one with a client of its own.
func (r *env) guard(opts ...guard.Option) *guard.Guard {
	r.Helper()
	return guardOn(r.T, r.server.Client(r.T), opts...)
}

// held is a hold whose work runs until finish, whatever its context says.
type held struct {
	*guard.Lease

	r      *env
	ctx    context.Context
	leave  chan struct{}
	result <-chan error
}

func (r *env) hold(g *guard.Guard, key string, opts ...guard.LockOption) held {
	r.Helper()
	h := <-r.start(g, key, opts...)
	require.NotNil(r, h.Lease)
	return h
}

// start gives what a call holds as soon as it does.
func (r *env) start(g *guard.Guard, key string, opts ...guard.LockOption) <-chan held {
	begun, result := make(chan held, 1), make(chan error, 1)
	go func() {
		defer close(begun)
		result <- g.WithLock(context.WithoutCancel(r.Context()), guard.Key(key), func(ctx context.Context) error {
			h := held{r: r, ctx: ctx, leave: make(chan struct{}), result: result}
			h.Lease, _ = guard.FromContext(ctx)
			begun <- h
			select {
			case <-h.leave:
			case <-r.Context().Done(): // the test failed
			}
			return nil
		}, append(opts, guard.Wait(patience))...)
	}()
	return begun
}

// finish ends the work.
func (h held) finish(want error) {
	h.r.Helper()
	close(h.leave)
	require.ErrorIs(h.r, <-h.result, want)
}

// ends waits until the context of the work ends, and ends the work.
func (h held) ends(want error) {
	h.r.Helper()
	h.awaitEnd()
	h.finish(want)
}

func (h held) awaitEnd() {
	h.r.Helper()
	select {
	case <-h.ctx.Done():
	case <-time.After(patience):
		require.FailNow(h.r, "the context of the work did not end")
	}
}

func (r *env) get(key string) inspect.Info {
	r.Helper()
	info, err := r.Get(r.Context(), key)
	require.NoError(r, err)
	return info
}

// all are the keys of what matches, each a lock or a record.
func (r *env) all(match string) (keys []string) {
	r.Helper()
	for info, err := range r.All(r.Context(), match) {
		require.NoError(r, err)
		keys = append(keys, info.Key)
	}
	return keys
}

func (r *env) await(key string, holders, waiting int) inspect.Info {
	r.Helper()
	var info inspect.Info
	require.Eventually(r, func() bool {
		got, err := r.Get(r.Context(), key)
		info = got
		return err == nil && len(got.Holders) == holders && len(got.Waiting) == waiting
	}, patience, time.Millisecond)
	return info
}

func (r *env) revokes(key string, fence uint64, want bool) {
	r.Helper()
	there, err := r.Revoke(r.Context(), key, fence)
	require.NoError(r, err)
	require.Equal(r, want, there)
}

func (r *env) breaks(key string, fence uint64, want bool) {
	r.Helper()
	there, err := r.Break(r.Context(), key, fence)
	require.NoError(r, err)
	require.Equal(r, want, there)
}
