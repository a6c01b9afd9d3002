package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The tests of this file are about the scripts, one rule at a time, where the model of package
// model says nothing.

// An owner needs no memory to confirm a grant or a hold, to renew it, to release it and to leave a tombstone.
func TestScript_HoldersWhenMemoryIsFull(t *testing.T) {
	b := newRig(t)
	b.listen("y")
	b.holds("x-1")
	b.busy("y-1", "0")
	b.busy("y-1", "0")
	assert.Equal(t, "w", b.line("x-1")[3])
	b.release("x-1", 0)
	b.memory("1")
	granted := b.holds("y-1")
	assert.Equal(t, []string{"-", "of y-1"}, b.line("y-1")[3:])
	assert.Greater(t, b.lives(lockKey), 50*time.Second)
	require.Equal(t, "held", b.renew("y-1", granted, 1000, 3))
	assert.Equal(t, "3", b.line("y-1")[0])
	require.Equal(t, "held", b.renew("y-1", granted, 0, 4))
	require.Equal(t, "released", b.release("y-1", 0))

	b.memory("0")
	b.wipe()
	fence := b.holds("a-2.1")
	b.holds("b-2.1")
	b.memory("1")
	require.Equal(t, "held", b.renew("a-2.1", fence, 120000, 1))
	require.Equal(t, "released", b.release("a-2.1", 1))
	require.Equal(t, "released", b.release("b-2.1", 0))
	require.Equal(t, "lost", b.release("c-1", 1))
	assert.Equal(t, []string{"a-2.1", "c-1"}, b.ZRange(t.Context(), endedKey, 0, -1).Val())
}

// Owners that wait are granted the lock if they asked within 25 s, and skipped if not.
func TestScript_AGrantIsForAClaimThatAskedLately(t *testing.T) {
	b := newRig(t)
	b.listen("y", "z")
	for ago, first := range map[time.Duration]string{14 * time.Second: "y-1", 24 * time.Second: "y-1", 26 * time.Second: "z-1"} {
		b.wipe()
		b.holds("x-1")
		b.busy("y-1", "0")
		b.busy("z-1", "0")
		b.asked("y-1", ago)
		b.release("x-1", 0)
		assert.True(t, b.inside(first), "%s: %v", ago, b.HGetAll(t.Context(), lockKey).Val())
	}
	b.wipe()
	b.holds("x-1")
	b.busy("y-1", "0")
	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	b.asked("y-1", time.Hour)
	assert.Equal(t, "held", b.acquire("y-1", "0")[0], "it asks, so it is alive")
}

// Where several servers count subscribers, that this one has none means nothing.
func TestScript_ReceiversOfACluster(t *testing.T) {
	b := newRig(t)
	for prefix, granted := range map[string]bool{"1c:": false, "0c:": true} {
		b.wipe()
		b.holds("x-1")
		b.busy("w-1", "0")
		b.run("release", allKeys, releaseArgs("x-1", prefix, 0, 0)...)
		assert.Equal(t, granted, b.inside("w-1"), prefix)
	}
}

// Redis refuses the end of a hold: the script fails, and all is as it was before. Least of all a
// lock without an end stays.
func TestScript_ATakeThatIsRefused(t *testing.T) {
	b := newRig(t)
	for _, above := range []string{"0", "1"} { // the quick way, and the long one
		_, err := b.as("-pexpire").try("acquire", allKeys, acquireArgs("x-1", "1c:", "", "meta", above)...)
		require.Error(t, err, above)
		assert.True(t, b.gone(allKeys...), above)
	}
	b.holds("x-1")
	_, err := b.as("-hrandfield").try("acquire", allKeys, acquireArgs("x-1", "1c:", "", "", "0")...)
	require.Error(t, err, "that it may not look is no word on the lock")
}

// A record of another type is damaged, and is not deleted. If the user may not read a record, it is not damaged.
func TestScript_ARecordThatCannotBeRead(t *testing.T) {
	b := newRig(t)
	once := lockKey + ":once"
	keys := append(slices.Clone(allKeys), once)
	claim := append(acquireArgs("x-1", "1c:", "", "", "0"), "-", 60000, 0)
	require.NoError(t, b.RPush(t.Context(), once, "theirs").Err())
	assert.Equal(t, []string{"recorded", "damaged"}, b.run("acquire", keys, claim...)[:2])
	_, err := b.try("forget", []string{lockKey, once})
	require.ErrorContains(t, err, "WRONGTYPE")
	_, err = b.as("-get").try("acquire", keys, claim...)
	require.Error(t, err)
	assert.True(t, b.gone(allKeys...))
	for _, text := range []string{"1 gone 7 0 a-1 - 1700000000000000 2 me", "2 done 7 0 a-1 - 1700000000000000 2 me", "1 done 7 0 a-1 - 1700000000000000 3 me"} {
		require.NoError(t, b.Set(t.Context(), once, text, 0).Err())
		assert.Equal(t, []string{"recorded", "damaged"}, b.run("acquire", keys, claim...)[:2], text)
	}
	for outcome, next := range map[string]string{"failed": "damaged", "done": "done"} { // it was damaged while work ran
		require.NoError(t, b.Set(t.Context(), once, "theirs", 0).Err())
		b.holds("x-1")
		b.run("release", keys, "1c:", "x-1", "0 0 -", outcome, "-", 60000, 0, "me", "result")
		assert.Equal(t, []string{"recorded", next}, b.run("acquire", keys, claim...)[:2])
	}
}

// Redis refuses an end to the queue, or to seen: the claim that was to wait is in neither.
func TestScript_AQueueThatIsRefused(t *testing.T) {
	b := newRig(t)
	for _, rules := range [][]any{{"-pexpire"}, {"-pexpire", "(+pexpire ~" + seenKey + ")"}} {
		b.wipe()
		b.holds("x-1")
		weak := b.as(rules...)
		if weak == nil {
			continue
		}
		_, err := weak.try("acquire", allKeys, acquireArgs("y-1", "1c:", "0", "", "0")...)
		require.Error(t, err, rules)
		assert.Zero(t, b.ZCard(t.Context(), queueKey).Val(), rules)
		if len(rules) == 1 {
			assert.Zero(t, b.HLen(t.Context(), seenKey).Val())
		}
	}
}

// A confirmation is a write: replicas have to know of the hold.
func TestScript_AConfirmationIsAWrite(t *testing.T) {
	b := newRig(t)
	b.holds("x-1")
	writes := func() string {
		_, after, _ := strings.Cut(b.Info(t.Context(), "persistence").Val(), "rdb_changes_since_last_save:")
		n, _, _ := strings.Cut(after, "\r")
		return n
	}
	before := writes()
	b.holds("x-1")
	assert.NotEqual(t, before, writes())
}

// The server's clock is set while a script writes, so that Redis takes a key for expired as soon as it has its new ttl.
// What the script writes after that has a ttl all the same.
func TestScript_AClockThatIsSetMeanwhileLeavesATTL(t *testing.T) {
	const expires = `local server, gone = redis, {}
local redis = {pcall = server.pcall, call = function(name, ...)
  local key, reply = ..., server.call(name, ...)
  if string.find(name, '^PEXPIRE') and not gone[key] then
    gone[key] = server.call('DEL', key)
  end
  return reply
end}
`
	b := newRig(t)
	run := func(script string, keys []string, args ...any) {
		require.NoError(t, b.Eval(t.Context(), expires+testenv.ScriptSource(script), keys, args...).Err())
		assert.Positive(t, b.lives(lockKey), "%s %v", script, args)
		assert.NotEqual(t, time.Duration(-1), b.lives(holdersKey), "%s %v", script, args)
		b.wipe()
	}
	for _, owner := range []string{"x-1", "a-2.1"} {
		fence := b.holds(owner)
		run("renew", renewKeys, owner, fence, 60000, 1, "")
	}
	b.holds("x-1")
	run("release", allKeys, releaseArgs("x-1", "1c:", 0, 60000)...)
}
