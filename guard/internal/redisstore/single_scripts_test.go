package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file are about the scripts of one server, one rule at a time, where the model
// of package model says nothing: what is refused, what is not ours, MinHold and revocation.

var (
	allKeys   = []string{lockKey, queueKey, lastKey, seenKey, lockKey + ":holders"}
	renewKeys = []string{lockKey, lockKey + ":holders"}
)

// as runs scripts as a user who may do everything but some commands. It is nil where the server
// does not know such rules.
func (b *bench) as(rules ...any) *bench {
	b.Helper()
	acl := append([]any{"acl", "setuser", "weak", "reset", "on", ">weak", "~*", "&*", "+@all"}, rules...)
	if err := b.Do(b.Context(), acl...).Err(); err != nil {
		return nil // rules of Redis 7, on an older one
	}
	o := *b.Options()
	o.Username, o.Password = "weak", "weak"
	client := redis.NewClient(&o)
	b.Cleanup(func() { _ = client.Close() })
	return &bench{b.T, client, b.ears}
}

func (b *bench) releaseHeldOver(owner string, minHold int) []any {
	b.Helper()
	return b.run("release", allKeys, releaseArgs(owner, "1c:", 60000, "0", 0, minHold)...)
}

// micros is the server's clock.
func (b *bench) micros() int64 {
	b.Helper()
	now, err := b.Time(b.Context()).Result()
	require.NoError(b, err)
	return now.UnixMicro()
}

// fixed has a clock that stands still.
func fixed(t *testing.T) *bench {
	t.Helper()
	m := miniredis.RunT(t)
	m.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	client := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return &bench{t, client, nil}
}

// Redis refuses the end of a hold: the script fails, and all is as it was before. Least of all a
// lock without an end stays.
func TestSingleScripts_ScriptTakeThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		last string
		ttl  time.Duration
	}{
		"nothing before":         {},
		"a last that has an end": {last: "1700000000000000 y-1", ttl: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if test.last != "" {
				require.NoError(t, b.Set(t.Context(), lastKey, test.last, test.ttl).Err())
			}
			weak := b.as("-pexpire")
			_, err := weak.try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "meta", "0")...)
			require.Error(t, err)
			assert.Zero(t, b.Exists(t.Context(), lockKey).Val())
			assert.Equal(t, test.last, b.last())
			if test.last == "" {
				assert.Zero(t, b.Exists(t.Context(), lastKey).Val())
			} else {
				assert.InDelta(t, test.ttl, b.lives(lastKey), float64(time.Minute))
			}
			weaker := b.as("-pexpire", "-del")
			_, err = weaker.try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "meta", "9000000000000000")...)
			require.Error(t, err)
			assert.Zero(t, b.Exists(t.Context(), lockKey).Val(), "not one field")
		})
	}
}

// What the last fence may be, and what it is not.
func TestSingleScripts_ScriptLastFence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	far := strconv.FormatInt(b.micros()+int64(time.Hour/time.Microsecond), 10)
	for last, above := range map[string]string{"9 y-1": far, far + " y-1": "9", "no fence y-1": "0", "99999999999999999 y-1": "0", "1x2 y-1": "0", "1xxxxxxxxxxxxxxx y-1": "0"} {
		require.NoError(t, b.FlushAll(t.Context()).Err())
		require.NoError(t, b.Set(t.Context(), lastKey, last, 0).Err())
		reply := b.acquireAbove("x-1", "", above)
		require.EqualValues(t, 1, reply[0])
		fence := reply[1].(string)
		assert.Len(t, fence, 16, last)
		if strings.Contains(last+above, far) {
			assert.Greater(t, fence, far, last)
			assert.EqualValues(t, 1, reply[2])
		} else {
			assert.Less(t, fence, far, last)
			assert.Len(t, reply, 2)
		}
	}
	still := fixed(t)
	at := strconv.FormatInt(still.micros(), 10)
	require.NoError(t, still.Set(t.Context(), lastKey, at+" y-1", 0).Err())
	assert.Greater(t, still.acquire("x-1", "")[1], at, "the clock is not above it")
	require.NoError(t, still.Del(t.Context(), lockKey, lastKey).Err())
	assert.Greater(t, still.acquireAbove("x-1", "", at)[1], at)
}

// What is remembered of a fence lives as long as the longest that any call asked for, and for a minute at
// least, whatever the ttl of the others is.
func TestSingleScripts_ScriptLastLivesNoShorter(t *testing.T) {
	t.Parallel()
	takes := func(b *bench, ttl int) { b.run("acquire", allKeys, acquireArgs("x-1", "1c:", ttl, "", "", "0")...) }
	frees := func(b *bench, ttl int) {
		require.Equal(t, []any{int64(1)}, b.run("release", allKeys, releaseArgs("x-1", "1c:", ttl, "0", 0, 0)...))
	}
	remembers := func(b *bench, d time.Duration) {
		last := fmt.Sprintf("1000000000000000 y-1 %d", b.micros()+d.Microseconds())
		require.NoError(t, b.Set(t.Context(), lastKey, last, d).Err())
	}
	b := newBench(t)
	takes(b, 600_000)
	frees(b, 1000)
	assert.Greater(t, b.lives(lastKey), 19*time.Minute, "a release with a shorter ttl")

	b = newBench(t)
	remembers(b, time.Hour)
	takes(b, 60_000)
	assert.Greater(t, b.lives(lastKey), 59*time.Minute, "a grant with a shorter ttl")

	b = newBench(t)
	remembers(b, 70*time.Second)
	takes(b, 1000)
	remembers(b, 10*time.Second)
	frees(b, 1000)
	assert.Greater(t, b.lives(lastKey), 50*time.Second, "a minute at least")
}

// Each claim of a batch has a ttl of its own, and so has what is remembered of its fence.
func TestSingleScripts_ScriptBatchOfSeveralTTLs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	locks := []string{"a", "b", "c"}
	var keys []string
	var args, releases []any
	ttls := []string{"60000", "600000", "60000"}
	for i, lock := range locks {
		key := "guard:{" + lock + "}"
		keys = append(keys, key, key+":queue", key+":last")
		args = append(args, "x-"+lock, ttls[i], "")
	}
	far := strconv.FormatInt(b.micros()+int64(time.Hour/time.Microsecond), 10)
	require.NoError(t, b.Set(t.Context(), "guard:{c}:last", far+" y-1", 0).Err())
	replies := b.run("acquire_batch", keys, args...)
	require.Len(t, replies, 3)
	assert.Positive(t, replies[0])
	assert.Positive(t, replies[1])
	assert.EqualValues(t, -1, replies[2], "ahead of the clock: acquire is to see to it")
	assert.Less(t, b.lives("guard:{a}:last"), 3*time.Minute)
	assert.Greater(t, b.lives("guard:{b}:last"), 19*time.Minute)

	require.NoError(t, b.HSet(t.Context(), "guard:{c}", "x-c", "1").Err()) // somebody else's making
	for i, lock := range locks {
		releases = append(releases, "x-"+lock, ttls[i], "1")
	}
	assert.Equal(t, []any{int64(1), int64(1), int64(-1)}, b.run("release_batch", keys, releases...))
	assert.Less(t, b.lives("guard:{a}:last"), 3*time.Minute)
	assert.Greater(t, b.lives("guard:{b}:last"), 19*time.Minute)
	assert.EqualValues(t, 1, b.Exists(t.Context(), "guard:{c}").Val(), "that is for release")
	for _, lock := range []string{"a", "b"} {
		assert.Contains(t, b.Get(t.Context(), "guard:{"+lock+"}:last").Val(), " x-"+lock+" ")
	}
}

// Redis refuses an end to the queue, or to seen: who was to wait is in neither.
func TestSingleScripts_ScriptQueueThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, allowed := range []string{"", "(+pexpire ~" + seenKey + ")"} {
		b := newBench(t)
		b.holds("x-1")
		rules := []any{"-pexpire"}
		if allowed != "" {
			rules = append(rules, allowed)
		}
		weak := b.as(rules...)
		if weak == nil && allowed != "" {
			continue
		}
		_, err := weak.try("acquire", allKeys, acquireArgs("y-1", "1c:", 60000, "0", "", "0")...)
		require.Error(t, err, allowed)
		assert.Zero(t, b.ZCard(t.Context(), queueKey).Val(), allowed)
		if allowed == "" {
			assert.Zero(t, b.HLen(t.Context(), seenKey).Val())
		}
	}
}

// What is under the key and is not ours is busy, and is left alone.
func TestSingleScripts_ScriptLockThatIsNotOurs(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]func(b *bench) error{
		"text":              func(b *bench) error { return b.Set(b.Context(), lockKey, "text", 0).Err() },
		"a hash of another": func(b *bench) error { return b.HSet(b.Context(), lockKey, "x-1", "1").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, foreign(b))
			assert.EqualValues(t, 0, b.acquire("x-1", "")[0])
			assert.EqualValues(t, 0, b.acquire("x-1", "0")[0])
			require.EqualValues(t, 1, b.ZCard(t.Context(), queueKey).Val())
			reply, err := b.try("release", allKeys, releaseArgs("x-1", "1c:", 60000, "0", 0, 0)...)
			if name == "text" {
				require.ErrorContains(t, err, "WRONGTYPE")
			} else {
				assert.EqualValues(t, 0, reply)
			}
			assert.Zero(t, b.ZCard(t.Context(), queueKey).Val(), "it waits no more")
			assert.EqualValues(t, 1, b.Exists(t.Context(), lockKey).Val())
		})
	}
	b := newBench(t)
	b.holds("x-1")
	_, err := b.as("-hmget").try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "", "0")...)
	require.Error(t, err, "that it may not look is no word on the lock")
}

// A confirmation is a write where replicas have to know of the hold.
func TestSingleScripts_ScriptConfirmationThatIsAWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1")
	writes := func() string {
		_, after, _ := strings.Cut(b.Info(t.Context(), "persistence").Val(), "rdb_changes_since_last_save:")
		n, _, _ := strings.Cut(after, "\r")
		return n
	}
	before := writes()
	b.run("acquire", allKeys, "x-1", 100, "", "0", "", "1c:", "")
	assert.Equal(t, before, writes())
	b.run("acquire", allKeys, "x-1", 100, "", "0", "", "1c:", "w")
	assert.NotEqual(t, before, writes())
	assert.Greater(t, b.lives(lockKey), 55*time.Second)
}

// A hold that was revoked is not confirmed, not entered, and its release says so. It keeps nothing.
func TestSingleScripts_ScriptHoldThatWasRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.holds("x-1")
	b.change("x-1", 3, "r")
	b.over("x-1")
	require.Equal(t, []any{int64(2)}, b.run("renew", renewKeys, "x-1", fence, 60000, 1, ""))
	require.Equal(t, []any{int64(2)}, b.run("renew", renewKeys, "x-1", fence, 0, 2, ""))
	require.Equal(t, "1", b.line("x-1")[0])
	require.Equal(t, []any{int64(3)}, b.releaseHeldOver("x-1", 30000))
	assert.Zero(t, b.Exists(t.Context(), lockKey).Val())
}

// A renewal without a ttl sets the counter, and moves no expiry. It creates no hold.
func TestSingleScripts_ScriptRenewalWithoutATTL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.holds("x-1")
	require.NoError(t, b.PExpire(t.Context(), lockKey, 20*time.Second).Err())
	require.Equal(t, []any{int64(1)}, b.run("renew", renewKeys, "x-1", fence, 0, 2, ""))
	assert.Equal(t, "2", b.line("x-1")[0])
	assert.LessOrEqual(t, b.lives(lockKey), 20*time.Second)
	require.NoError(t, b.Persist(t.Context(), lockKey).Err())
	require.Equal(t, []any{int64(1)}, b.run("renew", renewKeys, "x-1", fence, 0, 1, ""))
	assert.EqualValues(t, -1, b.PTTL(t.Context(), lockKey).Val())
	require.Equal(t, []any{int64(0)}, b.run("renew", renewKeys, "z-1", fence, 0, 2, ""))
	require.False(t, b.HExists(t.Context(), lockKey, "z-1").Val())
}

// rests looks for how long the lock is taken yet.
func (b *bench) rests(d time.Duration) {
	b.Helper()
	assert.InDelta(b, d, b.lives(lockKey), float64(5*time.Second))
	assert.LessOrEqual(b, b.lives(lockKey), d)
}

// A key stays taken until its MinHold is over, which counts from the grant.
func TestSingleScripts_ScriptMinHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.holds("x-1")
	b.waits("w-1", "0", 0)
	reply := b.releaseHeldOver("x-1", 30000)
	require.EqualValues(t, 4, reply[0])
	b.rests(30 * time.Second)
	assert.Greater(t, b.lives(lastKey), 2*time.Minute, "the MinHold, and twice the ttl")
	assert.Regexp(t, "^"+fence+" x-1 \\d+$", b.last())
	assert.Equal(t, "0", b.line("x-1")[0], "nobody holds it")
	assert.False(t, b.HExists(t.Context(), lockKey, "w-1").Val())
	b.over("x-1")
	busy := b.acquire("y-1", "")
	assert.EqualValues(t, 1, busy[6], "nobody holds it")
	assert.EqualValues(t, 1, said(b.run("acquire", allKeys, acquireArgs("y-2.1", "1c:", 60000, "", "", "0")...)...)[6], "for one with a limit, too")
	require.Equal(t, []any{int64(2)}, b.releaseHeldOver("x-1", 30000), "again")
	require.Equal(t, []any{int64(0)}, b.run("renew", renewKeys, "x-1", fence, 60000, 1, ""), "its work is done")
	assert.LessOrEqual(t, b.lives(lockKey), 30*time.Second)

	// The work took longer.
	b = newBench(t)
	b.holds("x-1")
	b.change("x-1", 1, b.micros()-20_000_000)
	require.Equal(t, []any{int64(4)}, b.releaseHeldOver("x-1", 30000))
	b.rests(10 * time.Second)
	b = newBench(t)
	b.holds("x-1")
	b.change("x-1", 1, b.micros()-40_000_000)
	require.Equal(t, []any{int64(1)}, b.releaseHeldOver("x-1", 30000))
	assert.Zero(t, b.Exists(t.Context(), lockKey).Val())

	// A fence ahead of the clock does not say when the hold began, and a clock that was set back
	// makes no MinHold longer.
	b = newBench(t)
	b.acquireAbove("x-1", "", strconv.FormatInt(b.micros()+int64(time.Hour/time.Microsecond), 10))
	since, err := strconv.ParseInt(strings.TrimLeft(b.line("x-1")[3], "la"), 10, 64)
	require.NoError(t, err)
	assert.InDelta(t, b.micros(), since, float64(time.Minute.Microseconds()), "when it began")
	b.change("x-1", 3, fmt.Sprint("la", b.micros()-20_000_000))
	require.Equal(t, []any{int64(4)}, b.releaseHeldOver("x-1", 30000))
	b.rests(10 * time.Second)
	b = newBench(t)
	b.holds("x-1")
	b.change("x-1", 1, b.micros()+500_000_000)
	require.Equal(t, []any{int64(4)}, b.releaseHeldOver("x-1", 30000))
	b.rests(30 * time.Second)
}

// A MinHold keeps those out, too, that its holder would tolerate.
func TestSingleScripts_ScriptMinHoldOfAPermit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("w")
	b.gets("a-2.1")
	b.waits2("x-1")
	require.EqualValues(t, 0, b.share("w-2.1", 60000, "0", "", "0")[0], "x-1 is in front")
	require.NoError(t, b.ZRem(t.Context(), queueKey, "x-1").Err())
	require.Equal(t, []any{int64(4)}, b.releaseHeldOver("a-2.1", 30000))
	assert.False(t, b.HExists(t.Context(), lockKey, "w-2.1").Val())
	assert.Empty(t, b.heard("w"))
}

// An owner that released is over in all rounds of its claim.
func TestSingleScripts_ScriptReleaseOfARound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1~1")
	b.release("x-1~1", "0", 0)
	b.over("x-1~2")
	require.EqualValues(t, 1, b.acquire("x-2~1", "")[0])
}

// What a claim knows of higher fences goes for all that are granted the lock in its call.
func TestSingleScripts_ScriptFenceOfAGrantInTheCallOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("w")
	b.holds("x-1")
	b.waits("w-1", "0", 0)
	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	far := strconv.FormatInt(b.micros()+int64(time.Hour/time.Microsecond), 10)
	require.EqualValues(t, 0, b.acquireAbove("y-1", "0", far)[0], "w-1 was first")
	assert.Greater(t, b.line("w-1")[1], far)
}

// A tombstone of a claim is one of all its rounds.
func TestSingleScripts_ScriptTombstoneOfRounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.release("x-1~1", "0", 1)
	b.over("x-1~1")
	b.over("x-1~2")
	b.over("x-1")
	assert.EqualValues(t, 1, b.acquire("x-2", "")[0])
}

// Where several servers count, that nobody listens on this one means nothing.
func TestSingleScripts_ScriptReceiversOfACluster(t *testing.T) {
	t.Parallel()
	for prefix, granted := range map[string]bool{"1c:": false, "0c:": true} {
		b := newBench(t)
		b.holds("x-1")
		b.waits("w-1", "0", 0)
		b.run("release", allKeys, releaseArgs("x-1", prefix, 60000, "0", 0, 0)...)
		assert.Equal(t, granted, b.HExists(t.Context(), lockKey, "w-1").Val(), prefix)
	}
}

// The two in front are told that they are, and nobody behind them.
func TestSingleScripts_ScriptThoseInFront(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("a", "b", "c", "d")
	b.holds("x-1")
	for i, owner := range []string{"a-1", "b-1", "c-1", "d-1"} {
		b.waits(owner, "0", int64(i))
	}
	b.release("x-1", "0", 0)
	assert.Equal(t, []string{"a-1"}, b.heard("a"))
	assert.Empty(t, b.heard("b"), "it knew")
	assert.Equal(t, []string{"+c-1"}, b.heard("c"))
	assert.Empty(t, b.heard("d"))
}

// Whoever is granted the lock for itself alone is the last one that a call looks after: those that come later are
// asked nothing.
func TestSingleScripts_ScriptGrantEndsTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("a", "b")
	b.holds("x-1")
	b.waits("a-1", "0", 0)
	b.waits("b-1", "0", 1)
	silent := fmt.Sprint(b.micros()-3_000_000, "+")
	require.NoError(t, b.HSet(t.Context(), seenKey, "b-1", silent).Err())
	b.release("x-1", "0", 0)
	assert.Equal(t, []string{"a-1"}, b.heard("a"))
	assert.Empty(t, b.heard("b"))
	assert.Equal(t, silent, b.HGet(t.Context(), seenKey, "b-1").Val())
}

// Who asks is alive, though nobody saw it.
func TestSingleScripts_ScriptWhoAsksLives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1")
	b.waits("w-1", "0", 0)
	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	b.asked("w-1", time.Hour)
	assert.EqualValues(t, 1, b.acquire("w-1", "0")[0])
}

// Two that join in the same µs have two places.
func TestSingleScripts_ScriptPlacesInOneMicrosecond(t *testing.T) {
	t.Parallel()
	b := fixed(t)
	b.holds("x-1")
	first, second := b.waits("a-1", "0", 0), b.waits("b-1", "0", 1)
	assert.NotEqual(t, first, second)
}

// A claim that keeps readers out leaves the queue: those behind it get in.
func TestSingleScripts_ScriptLeavesThoseItKeptOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("r")
	b.gets("a-0.1")
	b.waits2("w-1")
	require.EqualValues(t, 0, b.share("r-0.1", 60000, "0", "", "0")[0])
	b.release("w-1", "0", 0)
	assert.True(t, b.HExists(t.Context(), lockKey, "r-0.1").Val())
	assert.Equal(t, []string{"r-0.1"}, b.heard("r"))
}

// waits2 is waits beside holders that tolerate each other.
func (b *bench) waits2(owner string) {
	b.Helper()
	require.EqualValues(b, 0, b.acquire(owner, "0")[0])
}
