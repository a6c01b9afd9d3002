package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The tests of this file are about the scripts, one rule at a time, where the model of package
// model says nothing.

// A tombstone lives for a minute, and that of another owner does not end it. Old tombstones are
// deleted with the next one, also when memory is full.
func TestScript_Tombstones(t *testing.T) {
	b := newBench(t)
	now := b.micros()
	for i := range 20 {
		z := redis.Z{Score: float64(now - int64(i)*1_000_000), Member: fmt.Sprint("old-", i)}
		require.NoError(t, b.ZAdd(t.Context(), endedKey, z).Err())
	}
	b.memory("1")
	b.release("x-1", "0", 1)
	assert.Equal(t, []string{"x-1"}, b.ZRange(t.Context(), endedKey, 0, -1).Val())
	b.memory("0")
	before := b.ZScore(t.Context(), endedKey, "x-1").Val()
	assert.InDelta(t, now+time.Minute.Microseconds(), before, 5e6)
	assert.Greater(t, b.lives(endedKey), 55*time.Second)
	for end := now + 200_000; b.micros() < end; {
	}
	b.release("y-1", "0", 1)
	b.finished("x-1")
	b.finished("y-1")
	assert.True(t, b.gone(lockKey, queueKey))
	b.holds("x-2")
}

// An owner needs no memory for confirming a grant or a hold, from renewing and releasing.
func TestScript_HoldersWhenMemoryIsFull(t *testing.T) {
	b := newBench(t)
	b.listen("y")
	fence := b.holds("x-1")
	b.waits("y-1", "0", 0)
	b.release("x-1", fence, 0)
	require.Equal(t, []string{"y-1"}, b.messages("y"))
	b.memory("1")
	require.EqualValues(t, 1, b.take("y-1", 60000, "0", "of y", "0")[0])
	assert.Equal(t, "of y", b.line("y-1")[4])
	assert.Greater(t, b.lives(lockKey), 50*time.Second)
	granted := b.line("y-1")[1]
	require.EqualValues(t, 1, b.renew("y-1", granted, 1000, 3))
	assert.Equal(t, "3", b.line("y-1")[0])
	require.EqualValues(t, 1, b.renew("y-1", granted, 0, 4))

	b.memory("0")
	b.wipe()
	fence = b.holds("a-2.1")
	b.holds("b-2.1")
	b.memory("1")
	require.EqualValues(t, 1, b.renew("a-2.1", fence, 30000, 1), "the lock itself lasts long enough")
	require.EqualValues(t, 1, b.renew("a-2.1", fence, 120000, 1))
	require.EqualValues(t, 1, b.release("a-2.1", "0", 1))
	require.EqualValues(t, 1, b.release("b-2.1", "0", 0))
}

// A fence is above all that there is a reason to be above. A fence ahead of the clock is remembered until the
// clock has caught up.
func TestScript_AFenceIsAbove(t *testing.T) {
	b, server := newSteppedBench(t)
	at, next, after := b.in(0), b.in(time.Microsecond), b.in(2*time.Microsecond)
	for name, c := range map[string]struct {
		ahead, above string
		want         string
	}{
		"the clock":                {"", "0", at},
		"a fence with less digits": {"9", "0", at},
		"the clock in the same µs": {at, "0", "-" + next},
		"a floor of the same µs":   {"", at, "-" + next},
		"a floor with less digits": {"", "99", at},
		"a fence ahead":            {next, at, "-" + after},
		"a floor ahead":            {at, next, "-" + after},
	} {
		server.FlushAll()
		if c.ahead != "" {
			b.remembers(c.ahead)
		}
		fence, ahead := strings.CutPrefix(c.want, "-")
		want := []any{int64(1), fence}
		if ahead {
			want = append(want, int64(1))
		}
		assert.Equal(t, want, b.acquireAbove("x-1", c.above), name)
		assert.Equal(t, fence, b.line("x-1")[1], name)
		if ahead {
			assert.Equal(t, fence, b.ahead(), name)
		}
	}
	server.FlushAll()
	far := b.acquireAbove("x-1", b.in(time.Hour))[1].(string)
	assert.InDelta(t, time.Hour+time.Second, b.lives(endedKey), float64(time.Second))
	server.pass(time.Minute) // it crashed
	b.release("y-1", "0", 1) // a tombstone sweeps out what is over only
	assert.Greater(t, b.holds("x-2"), far)
	b.release("x-2", "0", 0)
	server.pass(time.Hour)
	assert.True(t, b.gone(allKeys...))
}

// One of several commands of a call finds no free or own lock: nothing is done for it, and the others are done.
func TestScript_ACallOfSeveral(t *testing.T) {
	b := newBench(t)
	other := make([]string, len(allKeys))
	for i, key := range allKeys {
		other[i] = strings.Replace(key, "}", "2}", 1)
	}
	keys := append(slices.Clone(allKeys), other...)
	b.holds("x-1")
	got := b.run("acquire", keys, "1c:", "y-1", 60000, "", "0", "y-2", 60000, "", "0")
	require.Len(t, got, 2)
	assert.Nil(t, got[0])
	assert.Contains(t, got[1], "held ")
	assert.False(t, b.inside("y-1"))
	assert.True(t, b.gone(queueKey))
	got = b.run("release", keys, "1c:", "y-1", "", "y-2", "")
	assert.Equal(t, []any{nil, "released"}, got)
	assert.True(t, b.inside("x-1"))
}

// Owners that wait are granted the lock if they asked within 25 s, and skipped if not.
func TestScript_AGrantIsForAClaimThatAskedLately(t *testing.T) {
	b := newBench(t)
	b.listen("y", "z")
	for ago, first := range map[time.Duration]string{14 * time.Second: "y-1", 24 * time.Second: "y-1", 26 * time.Second: "z-1"} {
		b.wipe()
		b.holds("x-1")
		b.waits("y-1", "0", 0)
		b.waits("z-1", "0", 1)
		b.asked("y-1", ago)
		b.release("x-1", "0", 0)
		assert.True(t, b.inside(first), "%s: %v", ago, b.HGetAll(t.Context(), lockKey).Val())
	}
	b.wipe()
	b.holds("x-1")
	b.waits("y-1", "0", 0)
	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	b.asked("y-1", time.Hour)
	assert.EqualValues(t, 1, b.acquire("y-1", "0")[0], "it asks, so it is alive")
}

// A claim that a late command queued anew gets its better place back when it brings it, and
// no worse one. Two claims that join in the same µs have two places.
func TestScript_APlaceIsKept(t *testing.T) {
	b, _ := newSteppedBench(t)
	b.listen("x", "y", "z")
	b.holds("x-1")
	place := b.waits("y-1", "0", 0)
	require.NotEqual(t, place, b.waits("z-1", "0", 1))
	require.NoError(t, b.ZRem(t.Context(), queueKey, "y-1").Err())
	worse := b.waits("y-1", "0", 1) // late
	require.Equal(t, place, b.waits("y-1", place, 0))
	require.Equal(t, place, b.waits("y-1", worse, 0), "a worse one does not count")
	require.Equal(t, place, b.waits("y-1", "0", 0))
}

// The claim that comes to be in front is notified, once. A dead one is taken out. Silence counts from there.
func TestScript_TheHeadIsNotifiedOnce(t *testing.T) {
	b := newBench(t)
	b.listen("a", "b", "c", "d")
	b.holds("x-1")
	for i, owner := range []string{"a-1", "dead-1", "b-1", "c-1", "d-1"} {
		b.waits(owner, "0", int64(i))
	}
	b.asked("b-1", 20*time.Second)
	b.release("x-1", "0", 0)
	require.Equal(t, []string{"a-1"}, b.messages("a"), "its reply said that it is in front")
	require.Equal(t, []string{"+b-1"}, b.messages("b"))
	require.Empty(t, b.messages("c"))
	require.Equal(t, []string{"b-1", "c-1", "d-1"}, b.ZRange(t.Context(), queueKey, 0, -1).Val())
	require.False(t, b.HExists(t.Context(), seenKey, "dead-1").Val())
	require.Greater(t, b.HGet(t.Context(), seenKey, "b-1").Val(), b.in(-10*time.Second))
	b.holds("a-1")
	b.release("c-1", "0", 0)
	require.Empty(t, b.messages("b"), "it knows")
	b.release("b-1", "0", 0)
	require.Empty(t, b.messages("b"))
	require.Equal(t, []string{"+d-1"}, b.messages("d"))
}

// Where several servers count subscribers, that this one has none means nothing.
func TestScript_ReceiversOfACluster(t *testing.T) {
	b := newBench(t)
	for prefix, granted := range map[string]bool{"1c:": false, "0c:": true} {
		b.wipe()
		b.holds("x-1")
		b.waits("w-1", "0", 0)
		b.run("release", allKeys, releaseArgs("x-1", prefix, "0", 0, 0)...)
		assert.Equal(t, granted, b.inside("w-1"), prefix)
	}
}

// Redis refuses the end of a hold: the script fails, and all is as it was before. Least of all a
// lock without an end stays.
func TestScript_ATakeThatIsRefused(t *testing.T) {
	b := newBench(t)
	for _, above := range []string{"0", "1"} { // the quick way, and the long one
		_, err := b.as("-pexpire").try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "meta", above)...)
		require.Error(t, err, above)
		assert.True(t, b.gone(allKeys...), above)
	}
	b.holds("x-1")
	_, err := b.as("-hrandfield").try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "", "0")...)
	require.Error(t, err, "that it may not look is no word on the lock")
}

// A record of another type is damaged, and is not deleted. If the user may not read a record, it is not damaged.
func TestScript_ARecordThatCannotBeRead(t *testing.T) {
	b := newBench(t)
	once := lockKey + ":once"
	keys := append(slices.Clone(allKeys), once)
	claim := append(acquireArgs("x-1", "1c:", 60000, "", "", "0"), "-", 60000, 0)
	require.NoError(t, b.RPush(t.Context(), once, "theirs").Err())
	assert.Equal(t, []any{"recorded damaged 0 0 0 "}, b.run("acquire", keys, claim...))
	_, err := b.try("forget", []string{lockKey, once})
	require.ErrorContains(t, err, "WRONGTYPE")
	_, err = b.as("-get").try("acquire", keys, claim...)
	require.Error(t, err)
	assert.True(t, b.gone(allKeys...))
}

// Redis refuses an end to the queue, or to seen: the claim that was to wait is in neither.
func TestScript_AQueueThatIsRefused(t *testing.T) {
	b := newBench(t)
	for _, rules := range [][]any{{"-pexpire"}, {"-pexpire", "(+pexpire ~" + seenKey + ")"}} {
		b.wipe()
		b.holds("x-1")
		weak := b.as(rules...)
		if weak == nil {
			continue
		}
		_, err := weak.try("acquire", allKeys, acquireArgs("y-1", "1c:", 60000, "0", "", "0")...)
		require.Error(t, err, rules)
		assert.Zero(t, b.ZCard(t.Context(), queueKey).Val(), rules)
		if len(rules) == 1 {
			assert.Zero(t, b.HLen(t.Context(), seenKey).Val())
		}
	}
}

// A confirmation is a write: replicas have to know of the hold.
func TestScript_AConfirmationIsAWrite(t *testing.T) {
	b := newBench(t)
	b.holds("x-1")
	writes := func() string {
		_, after, _ := strings.Cut(b.Info(t.Context(), "persistence").Val(), "rdb_changes_since_last_save:")
		n, _, _ := strings.Cut(after, "\r")
		return n
	}
	before := writes()
	b.take("x-1", 100, "", "", "0")
	assert.NotEqual(t, before, writes())
	assert.Greater(t, b.lives(lockKey), 55*time.Second)
}

// A renewal without a ttl sets the counter, and moves no expiry. It creates no hold.
func TestScript_ARenewalWithoutATTL(t *testing.T) {
	b := newBench(t)
	for _, owner := range []string{"x-1", "a-2.1"} {
		b.wipe()
		fence := b.holds(owner)
		ends, before := b.line(owner)[2], b.PExpireTime(t.Context(), lockKey).Val()
		require.EqualValues(t, 1, b.renew(owner, fence, 0, 2))
		assert.Equal(t, "2", b.line(owner)[0])
		assert.Equal(t, ends, b.line(owner)[2])
		if before > 0 { // Redis 7
			assert.InDelta(t, before, b.PExpireTime(t.Context(), lockKey).Val(), float64(2*time.Millisecond))
		}
	}
	require.EqualValues(t, 0, b.renew("z-1", "17", 0, 2))
	require.False(t, b.inside("z-1"))
}

// A MinHold counts from the grant. A fence ahead of the clock does not say when the hold began, and a
// clock that was set back makes no MinHold longer.
func TestScript_AMinHoldCountsFromTheGrant(t *testing.T) {
	b, server := newSteppedBench(t)
	for name, c := range map[string]struct {
		above string
		word  int
		to    string
		rests time.Duration
	}{
		"the work took 20 s":          {"0", 1, b.in(-20 * time.Second), 10 * time.Second},
		"the work took 40 s":          {"0", 1, b.in(-40 * time.Second), 0},
		"under a fence that is ahead": {b.in(time.Hour), 3, "a" + b.in(-20*time.Second), 10 * time.Second},
		"the clock was set back":      {"0", 1, b.in(500 * time.Second), 30 * time.Second},
	} {
		server.FlushAll()
		b.acquireAbove("x-1", c.above)
		if c.above != "0" {
			assert.Equal(t, "a"+b.in(0), b.line("x-1")[3], "when it began")
		}
		b.change("x-1", c.word, c.to)
		b.releaseHeldOver("x-1", 30000)
		assert.Equal(t, c.rests, max(b.lives(lockKey), 0), name)
	}
}

// The server's clock is set while a script writes, so that Redis takes a key for expired as soon as it has its new ttl.
// What the script writes then lives no longer.
func TestScript_AClockThatIsSetMeanwhileLeavesATTL(t *testing.T) {
	const expires = `local server, gone = redis, {}
local redis = {pcall = server.pcall, call = function(name, key, ...)
  local reply = server.call(name, key, ...)
  if string.find(name, '^PEXPIRE') and not gone[key] then
    gone[key] = server.call('DEL', key)
  end
  return reply
end}
`
	b := newBench(t)
	for name, test := range map[string]struct {
		owner, script string
		args          func(fence string) []any
	}{
		"a renewal":     {"x-1", "renew", func(fence string) []any { return []any{"x-1", fence, 60000, 1, ""} }},
		"beside others": {"a-2.1", "renew", func(fence string) []any { return []any{"a-2.1", fence, 60000, 1, ""} }},
		"held over":     {"x-1", "release", func(string) []any { return releaseArgs("x-1", "1c:", "0", 0, 60000) }},
	} {
		b.wipe()
		fence, keys := b.holds(test.owner), allKeys
		if test.script == "renew" {
			keys = renewKeys
		}
		require.NoError(t, b.Eval(t.Context(), expires+testenv.ScriptSource(test.script), keys, test.args(fence)...).Err())
		assert.True(t, b.inside(test.owner), name)
		assert.Positive(t, b.lives(lockKey), name)
		assert.NotEqual(t, time.Duration(-1), b.lives(holdersKey), name)
	}
}
