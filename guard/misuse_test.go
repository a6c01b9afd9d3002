package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// A lease that was given back is nothing: releasing it again does not take the lock away
// from whoever has it by then.
func TestMisuse_ReleasingTwiceTouchesNobodyElse(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		first, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		require.NoError(t, first.Release(t.Context()))
		next, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		calls := s.Calls("release")
		require.NoError(t, first.Release(t.Context()))
		assert.Equal(t, calls, s.Calls("release"))
		assert.Equal(t, 1, s.Depth("order:42"))
		require.NoError(t, next.Err())

		require.ErrorIs(t, first.Err(), guard.ErrReleased)
		require.ErrorIs(t, context.Cause(first.Context()), guard.ErrReleased)
		_, held := guard.Held(first.Context(), "order:42")
		assert.False(t, held)
		assert.NotEqual(t, next.Fence(), first.Fence(), "a stale token stays a stale token")
		require.NoError(t, next.Release(t.Context()))
	})
}

// Work that locks its own key with a context that is not its own waits for itself: a
// BusyError when Wait is over, and told at once with NoWait.
func TestMisuse_TheWrongContextWaitsForItself(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		ctx := t.Context()
		require.NoError(t, g.WithLock(ctx, testenv.Order, func(own context.Context) error {
			for _, wrong := range []context.Context{ctx, context.Background(), guard.Detach(own)} {
				begun := time.Now()
				err := g.WithLock(wrong, testenv.Order, testenv.Nothing, guard.Wait(time.Minute))
				var busy *guard.BusyError
				require.ErrorAs(t, err, &busy)
				assert.Equal(t, "lock_wait_timeout", busy.ErrorType())
				assert.Equal(t, "the work itself", busy.Holder)
				assert.Equal(t, time.Minute, time.Since(begun))
				require.ErrorIs(t, g.WithLock(wrong, testenv.Order, testenv.Nothing, guard.NoWait()), guard.ErrBusy)
			}
			assert.Equal(t, 1, s.Depth("order:42"))
			return g.WithLock(own, testenv.Order, testenv.Nothing)
		}, guard.Metadata("the work itself")))
	})
}

// Nothing that is done with a lost lease touches whoever has the key by then.
func TestMisuse_ALostLeaseIsOfNoUse(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		lost, err := g.Acquire(t.Context(), testenv.Order, guard.TTL(time.Second))
		require.NoError(t, err)
		s.Drop("order:42")
		<-lost.Context().Done()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(lost.Context()), guard.ErrLost)

		next, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		require.ErrorIs(t, lost.Err(), guard.ErrLost)
		require.NotErrorIs(t, lost.Err(), guard.ErrReleased)
		again := context.WithoutCancel(lost.Context())
		require.ErrorIs(t, g.WithLock(again, testenv.Order, testenv.Nothing), guard.ErrLost, "no re-entry")
		require.ErrorIs(t, lost.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, lost.Release(t.Context()), guard.ErrLost)
		assert.Equal(t, 1, s.Depth("order:42"))
		require.NoError(t, next.Err())
		require.NoError(t, next.Release(t.Context()))
	})
}

// A FixedLease that ran out says so in words that its user chose.
func TestMisuse_WhatAFixedLeaseThatRanOutSays(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, r *guardtest.Recorder) {
		err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, guard.FixedLease(), guard.TTL(time.Second), guard.Name("order"))
		var lost *guard.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, guard.ErrMaxHold, lost.Cause)
		assert.Equal(t, "lock_max_hold", lost.ErrorType())
		assert.ErrorContains(t, err, "FixedLease")
		synctest.Wait() // the watchdog tells the observers last
		assert.Equal(t, guard.OutcomeMaxHold, r.Observations("HoldEnd")[0].Hold.Outcome)
	})
}

// Work hears of its loss before anybody else does. Its end must not leave the key taken by
// it until they have.
func TestMisuse_TheNextCallFindsNothingOfALostHold(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		for range 300 {
			require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
				s.Drop("order:42")
				<-ctx.Done()
				return nil
			}), guard.ErrLost)
			require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing))
		}
	}, guard.NoWait())
}
