package redisstore_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// calls counts the commands that scripts run meanwhile, by name.
func (b *bench) calls(run func()) map[string]int {
	b.Helper()
	require.NoError(b, b.ConfigResetStat(b.Context()).Err())
	run()
	info, err := b.Info(b.Context(), "commandstats").Result()
	require.NoError(b, err)
	calls := map[string]int{}
	for _, m := range testenv.CommandStat.FindAllStringSubmatch(info, -1) {
		if name := m[1]; !slices.Contains([]string{"eval", "info", "config|resetstat"}, name) {
			calls[name], err = strconv.Atoi(m[2])
			require.NoError(b, err)
		}
	}
	require.NotEmpty(b, calls)
	return calls
}

// permits lets n holders of a limit of n in.
func (b *bench) permits(n int) {
	b.Helper()
	for i := range n {
		b.gets(fmt.Sprintf("a-%d.%d", n, i))
	}
}

// However many are inside, a script does the same few things for one caller.
func TestManyHolders_ACallOnABigLimitCostsNoMoreThanOnASmallOne(t *testing.T) {
	t.Parallel()
	const small, big = 50, 2000
	costs := map[int]map[string]map[string]int{}
	for _, n := range []int{small, big} {
		b := newBench(t)
		b.permits(n)
		busy := func(owner string) func() {
			return func() { require.EqualValues(t, 0, b.share(owner, 60000, "", "", "0")[0], owner) }
		}
		costs[n] = map[string]map[string]int{
			"a permit, NoWait": b.calls(busy(fmt.Sprintf("b-%d.1", n))),
			"a lower limit":    b.calls(busy("b-7.1")),
			"a reader, NoWait": b.calls(busy("b-0.1")),
			"exclusive":        b.calls(busy("b-1")),
			"a permit is back": b.calls(func() { require.EqualValues(t, 1, b.unshare(fmt.Sprintf("a-%d.0", n), 0)) }),
			"the next permit":  b.calls(func() { b.gets(fmt.Sprintf("b-%d.2", n)) }),
		}
		for what, calls := range costs[n] {
			for _, all := range []string{"hgetall", "hkeys", "hvals", "hscan", "zrange", "zscan"} {
				assert.NotContains(t, calls, all, "%s looks through all of them", what)
			}
		}
	}
	assert.Equal(t, costs[small], costs[big])
}

// Holders whose time is over are dropped by whoever comes, and by none more than a few.
func TestManyHolders_HoldersThatLapsedAreDroppedInSteps(t *testing.T) {
	t.Parallel()
	const most, inside = 32, 100 // most of one call, see lock.lua
	b := newBench(t)
	b.permits(inside)
	left := func() int { return int(b.ZCount(t.Context(), lockKey+":holders", "(0", "+inf").Val()) }
	require.Equal(t, inside, left())
	now, err := b.Time(t.Context()).Result()
	require.NoError(t, err)
	for i := range inside {
		owner, at := fmt.Sprintf("a-%d.%d", inside, i), now.Add(-time.Second).UnixMicro()
		b.change(owner, 2, at)
		require.NoError(t, b.ZAdd(t.Context(), lockKey+":holders", redis.Z{Score: float64(at), Member: owner}).Err())
	}
	for _, want := range []int{inside - most, inside - 2*most, inside - 3*most} {
		require.EqualValues(t, 0, b.acquire("x-1", "")[0], "it is not known yet that nobody is left")
		require.Equal(t, want, left())
	}
	require.EqualValues(t, 1, b.acquire("x-1", "")[0])
	require.EqualValues(t, 1, b.HLen(t.Context(), lockKey).Val(), "x-1 alone")
	require.Zero(t, b.Exists(t.Context(), lockKey+":holders").Val())
}

// What only a MinHold keeps is kept from readers and permits too, and they are told so.
func TestManyHolders_ThoseWhoTolerateOthersHearOfAMinHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.holds("x-1")
	for _, owner := range []string{"a-0.1", "a-5.1", "a-1"} {
		require.EqualValues(t, 0, b.share(owner, 60000, "", "", "0")[6], "%s: x-1 is at work", owner)
	}
	require.Equal(t, []any{int64(4)}, b.run("release", allKeys, releaseArgs("x-1", "1c:", 60000, fence, 0, 60000)...))
	for _, owner := range []string{"a-0.1", "a-5.1", "a-1"} {
		reply := b.share(owner, 60000, "", "", "0")
		require.EqualValues(t, 0, reply[0], owner)
		require.EqualValues(t, 1, reply[6], owner)
	}
}

// All readers crash, and the clock goes back to before they came: the next fence is above theirs.
func TestManyHolders_AFenceIsAboveThoseOfReadersThatCrashed(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"c-0.1", "c-1"} {
		server := newSteppedServer(t)
		b := &bench{t, server.client, map[string]*redis.PubSub{}}
		var high string
		for i := range 2 {
			high = b.share(fmt.Sprint("a-0.", i), 10000, "", "", "0")[1].(string)
			server.pass(time.Second)
		}
		server.pass(10 * time.Second)
		require.Zero(t, b.Exists(t.Context(), lockKey).Val())
		server.step(-30 * time.Second)
		reply := b.share(next, 10000, "", "", "0")
		require.EqualValues(t, 1, reply[0], next)
		assert.Greater(t, reply[1], high, next)
	}
}
