package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

func TestReentry_Counts(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			outer, _ := guard.FromContext(ctx)
			require.NoError(t, g.WithLock(ctx, testenv.Order, func(ctx context.Context) error {
				inner, _ := guard.FromContext(ctx)
				assert.NotSame(t, outer, inner)
				assert.Equal(t, outer.Owner(), inner.Owner())
				assert.Equal(t, outer.Fence(), inner.Fence())
				assert.Equal(t, 2, s.Depth("order:42"))
				return nil
			}, guard.NoWait(), guard.TTL(time.Second)))
			assert.Equal(t, 1, s.Depth("order:42"))
			return nil
		}))
		assert.Equal(t, 0, s.Depth("order:42"))
		var depths []int
		for _, o := range r.Observations("WaitEnd") {
			depths = append(depths, o.Wait.Depth)
		}
		assert.Equal(t, []int{1, 2}, depths)
		assert.Len(t, r.Observations("HoldEnd"), 2)
	})
}

func TestReentry_LastHandleReleases(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		outer, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		middle, err := g.Acquire(outer.Context(), testenv.Order)
		require.NoError(t, err)
		inner, err := g.Acquire(middle.Context(), testenv.Order)
		require.NoError(t, err)
		assert.Equal(t, 3, s.Depth("order:42"))

		require.NoError(t, outer.Release(t.Context()))
		require.NoError(t, middle.Release(t.Context()))
		assert.Equal(t, 1, s.Depth("order:42"))
		require.ErrorIs(t, outer.Err(), guard.ErrReleased)
		require.NoError(t, inner.Err())
		require.NoError(t, outer.Context().Err(), "what the inner one runs under is not over")
		require.NoError(t, inner.Context().Err())
		_, held := guard.Held(inner.Context(), "order:42")
		assert.True(t, held)

		again, err := g.Acquire(context.WithoutCancel(outer.Context()), testenv.Order)
		require.NoError(t, err, "the hold is there, so it can be joined")
		require.NoError(t, again.Release(t.Context()))

		require.NoError(t, inner.Release(t.Context()))
		assert.Equal(t, 0, s.Depth("order:42"))
		for _, l := range []*guard.Lease{outer, middle, inner} {
			require.ErrorIs(t, context.Cause(l.Context()), guard.ErrReleased)
			require.NoError(t, l.Release(t.Context()), "releasing twice is releasing once")
		}
	})
}

func TestReentry_InnerContextEndsWithItsOwnWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			var left context.Context
			require.NoError(t, g.WithLock(ctx, testenv.Order, func(ctx context.Context) error {
				left = ctx
				return nil
			}))
			require.ErrorIs(t, context.Cause(left), guard.ErrReleased)
			return ctx.Err()
		}))
	})
}

func TestReentry_ReleasedLeaseInAContextIsAnError(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		var left context.Context
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			left = context.WithoutCancel(ctx)
			return nil
		}))
		calls := s.Calls("acquire")
		err := g.WithLock(left, testenv.Order, func(context.Context) error { t.Error("ran"); return nil })
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, guard.ErrReleased)
		assert.Equal(t, calls, s.Calls("acquire"))
		_, held := guard.Held(left, "order:42")
		assert.False(t, held)

		require.NoError(t, g.WithLock(guard.Detach(left), testenv.Order, func(context.Context) error { return nil }))
		require.NoError(t, g.WithLock(left, guard.Key("other"), func(context.Context) error { return nil }))
	})
}

func TestReentry_DetachDropsLeasesAndCancellation(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
		require.NoError(t, g.WithLock(ctx, testenv.Order, func(ctx context.Context) error {
			detached := guard.Detach(ctx)
			cancel()
			require.NoError(t, detached.Err())
			assert.Equal(t, "v", detached.Value(key{}))
			_, ok := guard.FromContext(detached)
			assert.False(t, ok)
			_, ok = guard.Fence(detached)
			assert.False(t, ok)
			require.ErrorIs(t, g.WithLock(detached, testenv.Order, func(context.Context) error { return nil }, guard.NoWait()), guard.ErrBusy)
			return nil
		}))
	})
}

func TestReentry_AnotherGuardDoesNotSeeTheChain(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		other, err := guard.NewWithStore(s)
		require.NoError(t, err)
		defer func() { assert.NoError(t, other.Close()) }()
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			err := other.WithLock(ctx, testenv.Order, func(context.Context) error { return nil }, guard.NoWait())
			require.ErrorIs(t, err, guard.ErrBusy)
			return other.WithLock(ctx, guard.Key("second"), func(ctx context.Context) error {
				_, first := guard.Held(ctx, "order:42")
				_, second := guard.Held(ctx, "second")
				assert.True(t, first && second)
				l, _ := guard.FromContext(ctx)
				assert.Equal(t, "second", l.Key())
				return nil
			})
		}))
	})
}

func TestReentry_IntoALostHold(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			s.Drop("order:42")
			err := g.WithLock(ctx, testenv.Order, func(context.Context) error { t.Error("ran"); return nil })
			require.ErrorIs(t, err, guard.ErrLost)
			require.ErrorIs(t, context.Cause(ctx), guard.ErrLost, "the enter command brought it to light")
			return nil
		})
		require.ErrorIs(t, err, guard.ErrLost)
		assert.Len(t, r.Events(guard.Loss), 1)
	})
}

func TestReentry_DuringAnOutageFailsClosed(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			s.Fail(errors.New("down"))
			err := g.WithLock(ctx, testenv.Order, func(context.Context) error { t.Error("ran"); return nil }, guard.FailOpen())
			var storeErr *guard.StoreError
			require.ErrorAs(t, err, &storeErr)
			assert.Equal(t, "enter", storeErr.Op)
			s.Fail(nil)
			require.NoError(t, ctx.Err(), "the hold itself is as good as before")
			time.Sleep(time.Minute)
			assert.Equal(t, 1, s.Depth("order:42"))
			return nil
		}))
	})
}

func TestReentry_ManyReentriesAtOnce(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					assert.NoError(t, g.WithLock(ctx, testenv.Order, func(context.Context) error {
						time.Sleep(time.Second)
						return nil
					}))
				})
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			assert.Equal(t, 101, s.Depth("order:42"))
			wg.Wait()
			assert.Equal(t, 1, s.Depth("order:42"))
			return nil
		}))
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}

// A call nested in another one's work is still inside when the outer one returns, and
// both local and remote callers wait: the last one to leave releases.
func TestReentry_NestedCallStillInsideWhenTheOuterOneReturns(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	g := s.Guard(guard.HandoverWindow(time.Minute))
	outer := s.Acquire(g, "k")
	local := s.Caller(t.Context(), "local", g, "k")
	s.AwaitQueued(g, 1)
	remote := s.Caller(t.Context(), "remote", s.Guard(), "k")
	s.AwaitQueue("k", 1)
	inner, err := g.Acquire(outer.Context(), guard.Key("k"))
	require.NoError(t, err)
	leave := s.Book.Enter(inner.Context(), "k", "inner")
	s.Release(outer)
	assert.Equal(t, map[string]string{inner.Owner(): "1"}, s.Holders("k"))
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Context().Err())
	s.Stays(func() bool { return !local.IsIn() && !remote.IsIn() }, "nobody else is in")
	leave()
	s.Release(inner)
	local.Pass()
	remote.Pass()
	assert.Equal(t, []string{"inner", "local", "remote"}, s.Book.Entered())
}
