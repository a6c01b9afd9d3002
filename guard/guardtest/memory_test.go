package guardtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestContract_MemoryStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	store := func(testing.TB) guardstore.Store { return guardtest.NewStore() }
	guardtest.TestStore(t, store)
	guardtest.TestQueue(t, store)
	guardtest.TestLimits(t, store)
	guardtest.TestRecords(t, store)
}

func TestBubble_StoreOfIsWhatTheGuardLocksOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		s := guardtest.StoreOf(g)
		lock := func() error {
			return g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error {
				assert.Equal(t, 1, s.Depth("k"))
				return nil
			})
		}
		require.NoError(t, lock())
		s.Fail(errors.New("down"))
		begun := time.Now()
		require.ErrorIs(t, lock(), guard.ErrStore)
		assert.Equal(t, 2*time.Second, time.Since(begun))
		_, err := guardtest.Start()
		assert.ErrorContains(t, err, "use NewMemoryGuard")
	})
	g, err := guard.NewWithStore(guardtest.NewStore())
	require.NoError(t, err)
	defer g.Close()
	assert.PanicsWithValue(t, "guardtest: StoreOf was given a Guard that NewMemoryGuard did not make, or whose test has ended",
		func() { guardtest.StoreOf(g) })
}

// A claim without a subscription asks each second. The store in memory skips one that has
// stopped, as Redis does.
func TestUnsubscribed_AClaimWithoutASubscriptionThatStoppedAskingIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const alive = 1500 * time.Millisecond
		for silent, granted := range map[time.Duration]int{alive: 1, alive + time.Nanosecond: 0} {
			s := guardtest.NewStore()
			ask := func(owner string) guardstore.ClaimReply {
				reply, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: owner, TTL: time.Minute, Queue: true, Unsubscribed: true})
				require.NoError(t, err)
				return reply
			}
			fence := ask("first-1").Fence
			require.Equal(t, guardstore.ClaimBusy, ask("mute-1").Status)
			time.Sleep(silent)
			_, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "first-1", Fence: fence, TTL: time.Minute})
			require.NoError(t, err)
			assert.Equal(t, granted, s.Depth("k"), silent)
			assert.Empty(t, s.Queue("k"))
		}
	})
}
