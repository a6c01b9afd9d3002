package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

const slowRelease = 100 * time.Millisecond

// slowReleases runs a test on a Guard whose releases take a while to arrive.
func slowReleases(t *testing.T, run func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: guardtest.NewStore()}
		s.trouble(func(ctx context.Context, op, _ string) error {
			if op == "release" {
				time.Sleep(slowRelease)
			}
			return nil
		}, nil)
		r := new(guardtest.Recorder)
		g, err := guard.NewWithStore(s, append(opts, guard.Observe(r), guard.AsyncRelease())...)
		require.NoError(t, err)
		run(t, g, s.Store, r)
		require.NoError(t, g.Close())
	})
}

// Work that is done is not held up by its release, whatever it returned, and Close and Shutdown
// send what is left.
func TestAsyncRelease_DoesNotWait(t *testing.T) {
	boom := errors.New("boom")
	for name, work := range map[string]func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error{
		"WithLock": func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
			return g.WithLock(ctx, guard.Key("a"), fn)
		},
		"WithLocks": func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
			return g.WithLocks(ctx, keysOf("a b"), fn)
		},
		"Limit": func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
			return g.WithLock(ctx, guard.Key("a"), fn, guard.Limit(2))
		},
		"Shared": func(ctx context.Context, g *guard.Guard, fn func(context.Context) error) error {
			return g.WithLock(ctx, guard.Key("a"), fn, guard.Shared())
		},
	} {
		for _, shutdown := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				slowReleases(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
					ctx, cancel := context.WithCancel(t.Context())
					var worked context.Context
					begun := time.Now()
					require.Equal(t, boom, work(ctx, g, func(ctx context.Context) error { worked = ctx; return boom }))
					cancel() // nor does the release end with its caller
					assert.Zero(t, time.Since(begun))
					require.ErrorIs(t, context.Cause(worked), guard.ErrReleased)
					assert.Equal(t, 1, s.Depth("a"), "the release is on its way")
					if shutdown {
						require.NoError(t, g.Shutdown(t.Context()))
					} else {
						require.NoError(t, g.Close())
					}
					assert.Equal(t, slowRelease, time.Since(begun))
					noneHeld(t, s, "a b")
					assert.Empty(t, r.Events(guard.Loss))
					assert.Empty(t, r.Events(guard.ReleaseFailure))
				})
			})
		}
	}
}

// A caller of the same Guard that waits is given the lock.
func TestAsyncRelease_HandsOver(t *testing.T) {
	slowReleases(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		next := make(chan error, 1)
		require.NoError(t, g.WithLock(t.Context(), guard.Key("a"), func(context.Context) error {
			go func() { next <- g.WithLock(t.Context(), guard.Key("a"), testenv.Nothing) }()
			synctest.Wait()
			time.Sleep(time.Millisecond) // fences are of the clock
			return nil
		}))
		begun := time.Now()
		require.NoError(t, <-next)
		assert.Zero(t, time.Since(begun))
		synctest.Wait()
		assert.Len(t, r.Events(guard.Handover), 1)
	})
}

// A caller of the same Guard that comes when the release was sent claims the key when that was
// answered: its claim does not overtake the release, and finds the key free.
func TestAsyncRelease_AClaimDoesNotOvertakeAnAsyncRelease(t *testing.T) {
	for _, wait := range []guard.LockOption{guard.NoWait(), guard.Wait(guard.Forever)} {
		slowReleases(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
			begun := time.Now()
			require.NoError(t, g.WithLock(t.Context(), guard.Key("a"), testenv.Nothing))
			synctest.Wait()
			require.NoError(t, g.WithLock(t.Context(), guard.Key("a"), testenv.Nothing, wait))
			assert.Equal(t, slowRelease, time.Since(begun))
			assert.Equal(t, 2, s.Calls("acquire"), "each asked once")
		})
	}
}

// A loss that only the release shows goes to the observers; one that is known is returned.
func TestAsyncRelease_ALossOnAnAsyncRelease(t *testing.T) {
	slowReleases(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("a"), func(context.Context) error { s.Drop("a"); return nil }))
		assert.Empty(t, r.Observations("HoldEnd"), "it has not ended")
		time.Sleep(2 * slowRelease)
		events := r.Events(guard.Loss)
		require.Len(t, events, 1)
		require.ErrorIs(t, events[0].Err, guard.ErrLost)
		assert.Equal(t, "release", events[0].Op)
		assert.Len(t, r.Observations("HoldEnd"), 1)

		err := g.WithLock(t.Context(), guard.Key("b"), func(ctx context.Context) error {
			s.Drop("b")
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, guard.ErrLost)
		time.Sleep(2 * slowRelease)
	})
}

// Acquire's Release is asked for, and waits as ever.
func TestAsyncRelease_IsNotForLeases(t *testing.T) {
	slowReleases(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		lease, err := g.Acquire(t.Context(), guard.Key("a"))
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		noneHeld(t, s, "a")
	})
}
