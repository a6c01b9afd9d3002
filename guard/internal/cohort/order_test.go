package cohort_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Redis restarts empty: no lock, no queue, no scripts, no subscriptions. When those who
// waited have found it again, one of them has the lock, and the others wait behind it in
// their old order.
func TestOrder_WaitersKeepTheirPlacesWhenRedisRestartsEmpty(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	holder := s.Acquire(s.Guard(), "k")
	waiters, owners := s.QueueOf(5)
	s.Server.Restart(t)
	left := s.AwaitQueue("k", 4)
	var first string
	for owner := range s.Holders("k") {
		first = owner
	}
	i := slices.Index(owners, first)
	require.GreaterOrEqual(t, i, 0, "one of them is in")
	assert.Equal(t, slices.Concat(owners[:i], owners[i+1:]), left)
	require.ErrorIs(t, holder.Release(t.Context()), guard.ErrLost)
	s.PassInOrder(slices.Concat(waiters[i:i+1], waiters[:i], waiters[i+1:]))
}
