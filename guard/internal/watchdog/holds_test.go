package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// bubble runs test with a Guard on a memory store, in virtual time.
func bubble(t *testing.T, test func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, r := guardtest.NewStore(), &guardtest.Recorder{}
		g, err := guard.NewWithStore(s, append(opts, guard.Observe(r))...)
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Close()) }()
		test(t, g, s, r)
	})
}

func TestHolds_ContextEndsBeforeTheStoreCanLetGo(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
				down := errors.New("down")
				err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
					s.Fail(down)
					start := time.Now()
					<-ctx.Done()
					s.Fail(nil)
					assert.Equal(t, 1, s.Depth("order:42"), "still there: no other owner can be in")
					slewed := time.Since(start) * 1_083_333 / 1_000_000
					assert.Less(t, slewed, ttl, "also by a server's clock that chrony slews")
					assert.Greater(t, time.Since(start), ttl/2)
					var lost *guard.LostError
					require.ErrorAs(t, context.Cause(ctx), &lost)
					assert.Equal(t, "lock_lost", lost.ErrorType())
					require.NotErrorIs(t, lost, down, "a lost lease does not look like a failed call")
					assert.Contains(t, lost.Error(), "down")
					return nil
				}, guard.TTL(ttl))
				require.ErrorIs(t, err, guard.ErrLost, "though the work returned nil")
				require.NotErrorIs(t, err, guard.ErrStore)
				synctest.Wait() // the watchdog notifies the observers last
				assert.Len(t, r.Events(guard.EventLoss), 1)
				ends := r.Observations("HoldEnd")
				require.Len(t, ends, 1)
				assert.Equal(t, guard.OutcomeLost, ends[0].Hold.Outcome)
			})
		})
	}
}

func TestHolds_MaxHoldEndsTheWorkAndKeepsTheLockUntilItReturned(t *testing.T) {
	bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		start := time.Now()
		err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			<-ctx.Done()
			assert.Equal(t, 50*time.Second, time.Since(start))
			require.ErrorIs(t, context.Cause(ctx), guard.ErrMaxHold)
			time.Sleep(time.Second)
			assert.Equal(t, 1, s.Depth("order:42"))
			return nil
		}, guard.MaxHold(50*time.Second))
		require.ErrorIs(t, err, guard.ErrMaxHold)
		assert.Equal(t, 0, s.Depth("order:42"))
		assert.Equal(t, guard.OutcomeMaxHold, r.Observations("HoldEnd")[0].Hold.Outcome)
	})
}

// One grant that fails must not take the others of its batch with it, nor delay one
// with a short ttl.
func TestHolds_MixedTTLsAreEachRenewedInTime(t *testing.T) {
	bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		var leases []*guard.Lease
		for i, ttl := range []time.Duration{
			time.Hour, 30 * time.Second, 100 * time.Millisecond, time.Second, 5 * time.Second, 150 * time.Millisecond,
		} {
			l, err := g.Acquire(t.Context(), guard.Key(fmt.Sprint(i)), guard.TTL(ttl))
			require.NoError(t, err)
			leases = append(leases, l)
		}
		s.Drop("3")
		time.Sleep(10 * time.Minute)
		for i, l := range leases {
			if i == 3 {
				require.ErrorIs(t, l.Err(), guard.ErrLost)
			} else {
				require.NoError(t, l.Err())
				assert.True(t, l.Deadline().After(time.Now()))
			}
			_ = l.Release(t.Context())
		}
	})
}
