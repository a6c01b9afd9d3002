package guard_test

import (
	"context"
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
