package guard_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestClose_EndsLeasesAndWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		var waiting chan error
		err := g.WithLock(t.Context(), k, func(ctx context.Context) error {
			waiting = begin(func() error { return g.WithLock(t.Context(), k, never(t)) })
			require.NoError(t, g.Close())
			require.NoError(t, g.Close())
			<-ctx.Done()
			assert.Equal(t, 1, g.s.Depth("k"), "taken while the work runs")
			return nil
		})
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, guard.ErrClosed)
		is(t, <-waiting, guard.ErrClosed, guard.ErrLost)
		assert.Equal(t, 0, g.s.Depth("k"), "given back when the work returned")
		synctest.Wait() // observers hear last
		assert.ErrorIs(t, g.r.Observations("HoldEnd")[0].Hold.Err, guard.ErrClosed)
		require.ErrorIs(t, g.WithLock(t.Context(), k, never(t)), guard.ErrClosed)
	})
}

func TestClose_JoinsCommandsOnTheirWay(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		returned := false
		g.s.Trouble(only("release", func(context.Context) error {
			time.Sleep(time.Minute)
			returned = true
			return errReply
		}), nil)
		require.NoError(t, g.lock(guard.AsyncRelease()))
		first, second := begin(g.Close), begin(g.Close)
		assert.Empty(t, second, "it waits as well")
		require.NoError(t, <-first)
		assert.True(t, returned)
		require.NoError(t, <-second)
	})
}

// A release that failed once is repeated within half a second.
func TestClose_WaitsForARelease(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.Trouble(times(1, "release", "k", func() error { return errReply }), nil)
		require.NoError(t, g.lock(guard.AsyncRelease()))
		require.NoError(t, g.Close())
		assert.Zero(t, g.s.Depth("k"))
	})
}

// After half a second, Close repeats no command. An attempt on its way ends with its own timeout, where no connection is
// there to be closed.
func TestClose_RepeatsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.Trouble(only("release", silent), nil)
		require.NoError(t, g.lock(guard.AsyncRelease(), guard.TTL(time.Minute)))
		begun := time.Now()
		require.NoError(t, g.Close())
		assert.Equal(t, time.Second, time.Since(begun))
	}, guard.StoreTimeout(time.Minute))
}

// A lease outlives its Guard while Redis is silent: its context ends with Close, each release is one short attempt of its
// caller, and no goroutine stays, as the end of the bubble shows.
func TestClose_ALeaseThatOutlivesItsGuardWhileRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l, work := g.take(), make(chan struct{})
		working := begin(func() error {
			return g.WithLock(t.Context(), guard.Key("work"), func(ctx context.Context) error { <-work; return context.Cause(ctx) })
		})
		g.s.Trouble(func(ctx context.Context, _, _ string) error { return silent(ctx) }, nil)
		require.NoError(t, g.Close())
		require.ErrorIs(t, context.Cause(l.Context()), guard.ErrClosed)
		begun := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrClosed)
		close(work)
		require.ErrorIs(t, <-working, guard.ErrClosed)
		assert.Equal(t, 100*time.Millisecond, time.Since(begun), "50 ms each")
	})
}

// A Guard that was closed leaves no connection open.
func TestClose_EndsItsConnections(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	direct := s.Client(t)
	g, err := guard.New(s.Client(t))
	require.NoError(t, err)
	require.NoError(t, g.WithLock(t.Context(), k, nothing))
	require.NoError(t, g.Close())
	defer runtime.KeepAlive(g) // or a collection closes them
	testenv.Eventually(t, func() bool { return strings.Count(direct.ClientList(t.Context()).Val(), "\n") == 1 }, "a connection is left")
}

// Each call of Close returns the errors of the Guard's clients.
func TestClose_ReturnsTheErrorsOfItsClients(t *testing.T) {
	t.Parallel()
	var own redis.UniversalClient
	g, err := guard.New(redistest.Start(t).Client(t), guard.OnClient(func(client redis.UniversalClient) { own = client }))
	require.NoError(t, err)
	require.NoError(t, own.Close())
	require.ErrorIs(t, g.Close(), redis.ErrClosed)
	require.ErrorIs(t, g.Close(), redis.ErrClosed)
}

// Shutdown waits for leases, and for locks under them. No other caller gets in, not under a lease of another Guard.
func TestShutdown_LetsWorkFinish(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other, err := guardtest.NewMemoryGuard(t).Acquire(t.Context(), guard.Key("other"))
		require.NoError(t, err)
		own := g.take()
		waiting := begin(func() error { return g.WithLock(t.Context(), k, never(t)) })
		shut := begin(func() error { return g.Shutdown(t.Context()) })
		require.ErrorIs(t, <-waiting, guard.ErrClosed)
		for _, ctx := range []context.Context{t.Context(), other.Context()} {
			_, err = g.Acquire(ctx, guard.Key("late"))
			require.ErrorIs(t, err, guard.ErrClosed)
		}
		require.ErrorIs(t, g.Ping(t.Context()), guard.ErrClosed)
		require.NoError(t, g.WithLock(own.Context(), k, nothing))
		require.NoError(t, g.WithLock(own.Context(), guard.Key("nested"), nothing))
		require.NoError(t, g.WithLocks(own.Context(), keysOf("a b"), nothing))
		time.Sleep(time.Minute)
		require.Empty(t, shut)
		g.free(own)
		require.NoError(t, <-shut)
		require.ErrorIs(t, g.lock(), guard.ErrClosed)
		require.NoError(t, other.Release(t.Context()))
	})
}

// The error of a context that has ended says why once.
func TestShutdown_TheErrorOfItsContext(t *testing.T) {
	boom, cancel := context.WithCancelCause(t.Context())
	cancel(errBoom)
	for want, ctx := range map[string]context.Context{"context canceled": canceled(t.Context()), "context canceled: boom": boom} {
		bubble(t, func(t *testing.T, g *env) {
			l := g.take()
			require.EqualError(t, g.Shutdown(ctx), want)
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrClosed)
		})
	}
}

// A lease that was not released in time, and work that continues without its lock, are not waited for.
func TestShutdown_DoesNotWaitForEndedLeases(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		forgotten := g.acquire(t.Context(), "forgotten", guard.MaxHold(time.Second))
		nested := g.acquire(forgotten.Context(), "forgotten")
		release := make(chan struct{})
		deaf := begin(func() error {
			return g.WithLock(t.Context(), k, func(context.Context) error { <-release; return nil })
		})
		g.s.Drop("k")
		live := g.acquire(t.Context(), "live")
		time.Sleep(time.Minute)
		require.ErrorIs(t, forgotten.Err(), guard.ErrMaxHold)

		shut := begin(func() error { return g.Shutdown(t.Context()) })
		assert.Empty(t, shut, "one lease is live")
		_, err := g.Acquire(context.WithoutCancel(forgotten.Context()), guard.Key("late"))
		require.ErrorIs(t, err, guard.ErrClosed, "a lost lease lets no caller in")
		require.ErrorIs(t, nested.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, forgotten.Release(t.Context()), guard.ErrLost)
		synctest.Wait()
		assert.Empty(t, shut, "each end counts once")
		g.free(live)
		require.NoError(t, <-shut)
		close(release)
		require.ErrorIs(t, <-deaf, guard.ErrLost)
	})
}

func TestShutdown_GivesUpWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Shutdown(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, l.Err(), guard.ErrClosed)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrClosed)
	})
}

// A call for several keys that waits for one of them is a caller like any other, whatever it has by then.
func TestShutdown_EndsACallThatHasSomeOfItsKeys(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		b := g.another().acquire(t.Context(), "b")
		ended := begin(func() error { return g.WithLocks(t.Context(), keysOf("a b"), never(t)) })
		require.Equal(t, 1, g.s.Depth("a"))
		down := begin(func() error { return g.Shutdown(t.Context()) })
		require.Len(t, ended, 1, "it still waits")
		require.ErrorIs(t, <-ended, guard.ErrClosed)
		g.free(b)
		require.NoError(t, <-down)
	})
}
