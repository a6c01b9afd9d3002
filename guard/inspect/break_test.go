package inspect_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

// heldAs is a Redis with a hold on k, under an owner and a fence of the test.
func heldAs(t *testing.T, owner string, fence uint64) *redis.Client {
	t.Helper()
	rdb := redistest.Start(t).Client(t)
	line := "1 " + strconv.FormatUint(fence, 10) + " 0 - "
	require.NoError(t, rdb.HSet(t.Context(), "guard:{k}", owner, line).Err())
	require.NoError(t, rdb.PExpire(t.Context(), "guard:{k}", time.Minute).Err())
	return rdb
}

func broken(t *testing.T, rdb *redis.Client, fence uint64) {
	t.Helper()
	there, err := inspect.New(rdb).Break(t.Context(), "k", fence)
	require.NoError(t, err)
	require.True(t, there)
	require.Zero(t, rdb.Exists(t.Context(), "guard:{k}").Val())
}

// A server of a quorum may know of a higher fence than the one that it granted.
func TestBreak_ForgetsNoHigherFence(t *testing.T) {
	t.Parallel()
	rdb := heldAs(t, "x-1", 1000)
	require.NoError(t, rdb.Set(t.Context(), "guard:{k}:last", "5000 ", time.Minute).Err())
	broken(t, rdb, 1000)
	last, _, _ := strings.Cut(rdb.Get(t.Context(), "guard:{k}:last").Val(), " ")
	assert.Equal(t, "5000", last)
}

// What is over is the claim, with all its rounds on a quorum.
func TestBreak_EndsAllRoundsOfAClaim(t *testing.T) {
	t.Parallel()
	rdb := heldAs(t, "x-1~2", 1000)
	broken(t, rdb, 1000)
	keys := []string{"guard:{k}", "guard:{k}:queue", "guard:{k}:last", "guard:{k}:seen", "guard:{k}:holders"}
	for late, held := range map[string]bool{"x-1~3": false, "x-1": false, "x-12~1": true} {
		reply, err := rdb.Eval(t.Context(), redisstore.Scripts()["acquire"], keys, late, 60000, "", "0", "", "1guard:grant:", "").Result()
		require.NoError(t, err, late)
		if held {
			assert.IsType(t, "", reply, "%s is another claim", late)
			require.NoError(t, rdb.Del(t.Context(), "guard:{k}").Err())
		} else {
			assert.EqualValues(t, 0, reply, late)
		}
	}
}

// The clock was set back under the hold. Until it has caught up, a later fence is above this one.
func TestBreak_RemembersAFenceThatIsAheadOfTheClock(t *testing.T) {
	t.Parallel()
	fence := uint64(time.Now().Add(time.Hour).UnixMicro()) //nolint:gosec // after 1970
	rdb := heldAs(t, "x-1", fence)
	broken(t, rdb, fence)
	assert.Greater(t, rdb.PTTL(t.Context(), "guard:{k}:last").Val(), time.Hour)
}
