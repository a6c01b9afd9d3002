package guardtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// A claim without a subscription asks each second. The store in memory passes over one that has
// stopped, as Redis does.
func TestUnsubscribed_AClaimWithoutASubscriptionThatStoppedAskingIsPassedOver(t *testing.T) {
	const alive = 1500 * time.Millisecond
	for silent, granted := range map[time.Duration]bool{alive: true, alive + time.Nanosecond: false} {
		t.Run(silent.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := guardtest.NewStore()
				ask := func(owner string, unsubscribed bool) guardstore.ClaimReply {
					t.Helper()
					reply, err := s.Acquire(t.Context(), guardstore.Claim{
						Key: "k", Owner: owner, TTL: time.Minute, Queue: true, Unsubscribed: unsubscribed,
					})
					require.NoError(t, err)
					return reply
				}
				held := ask("first-1", false)
				require.Equal(t, guardstore.ClaimHeld, held.Status)
				require.Equal(t, guardstore.ClaimBusy, ask("mute-1", true).Status)
				time.Sleep(silent)
				_, err := s.Release(t.Context(), guardstore.Release{Key: "k", Owner: "first-1", Fence: held.Fence, TTL: time.Minute})
				require.NoError(t, err)
				assert.Equal(t, granted, s.Depth("k") == 1)
				assert.Empty(t, s.Queue("k"))
			})
		})
	}
}
