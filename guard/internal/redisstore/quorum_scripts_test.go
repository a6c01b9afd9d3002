package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file are about what the servers of a quorum are asked, besides acquire,
// renew and release.

// A new place is behind all others, also behind one that is ahead of the clock: this server's
// was set back.
func TestAPlaceInTheWakeListIsBehindAllOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now, err := b.Time(t.Context()).Result()
	require.NoError(t, err)
	first := b.wait("a-1", "0")
	place, err := strconv.ParseInt(first[2].(string), 10, 64)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, place, now.UnixMicro(), "a place is the time")
	require.NoError(t, b.ZAdd(t.Context(), wakeKey, redis.Z{Score: 1 << 52, Member: "far-1"}).Err())
	require.Equal(t, []any{int64(0), "", strconv.Itoa(1<<52 + 1), int64(2)}, b.wait("b-1", "0"))
	require.Equal(t, []any{int64(0), "", strconv.Itoa(1<<52 + 2), int64(3)}, b.wait("c-1", "0"))
	require.Equal(t, first, b.wait("a-1", "0"))
}

// What there is to see of the lock, whatever is under its key.
func TestWhatTheWakeListShowsOfTheLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	left := func(reply []any) int64 { return reply[0].(int64) }

	require.NoError(t, b.Set(t.Context(), lockKey, "text", 0).Err())
	seen := b.wait("a-1", "0")
	require.Equal(t, []any{int64(-1), "", seen[2], int64(0)}, seen, "it is taken, for ever")
	require.NoError(t, b.Set(t.Context(), lockKey, "text", time.Minute).Err())
	assert.InDelta(t, 60000, left(b.wait("a-1", "0")), 5000)

	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	assert.Zero(t, left(b.wait("a-1", "0")))
	b.run("acquire", allKeys, acquireArgs("x-1~1", "1c:", 60000, "", "who", "0")...)
	seen = b.wait("a-1", "0")
	assert.InDelta(t, 60000, left(seen), 5000)
	assert.Equal(t, "who", seen[1])
	assert.Len(t, seen, 4)

	b.run("release", allKeys, releaseArgs("x-1~1", "1c:", 60000, "0", 0, 30000)...)
	seen = b.wait("a-1", "0")
	assert.InDelta(t, 30000, left(seen), 5000)
	require.Len(t, seen, 5, "its work is done")
	assert.EqualValues(t, 1, seen[4])
}

// A round takes back what it got, and its tombstone is written whatever is under the key.
func TestARollbackOfALockOfAnotherType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.Set(t.Context(), lockKey, "text", 0).Err())
	b.rollback("x-1~1", 1)
	assert.Equal(t, "text", b.Get(t.Context(), lockKey).Val())
	assert.Negative(t, b.ZScore(t.Context(), queueKey, "x-1~1").Val())
	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	b.over("x-1~1")
}

// Without being asked to, a round that failed leaves nothing.
func TestARollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rollback("x-1~1", 0)
	assert.Zero(t, b.DBSize(t.Context()).Val())
	b.holds("x-1~2")
	b.rollback("x-1~2", 0)
	assert.Equal(t, []string{lastKey}, b.Keys(t.Context(), "*").Val())
}

// A raised fence is remembered until the clock is past it, and for as long as it was to be, also
// by the release of the hold.
func TestARaiseOutlivesTheHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1~1")
	far := strconv.FormatInt(time.Now().Add(3*time.Hour).UnixMicro(), 10)
	require.Equal(t, []any{int64(1)}, b.run("raise_fence", []string{lockKey, lastKey}, "x-1~1", far, 60000))
	assert.Equal(t, "l", b.line("x-1~1")[3])
	b.release("x-1~1", far, 0)
	assert.Greater(t, b.lives(lastKey), 3*time.Hour-time.Minute)
	assert.Contains(t, b.last(), far+" x-1~1 ")
}
