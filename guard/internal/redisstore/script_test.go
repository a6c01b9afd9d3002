package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file are about the scripts, one rule at a time, where the model of package
// model says nothing.

// A tombstone lives for a minute, and that of another owner does not end it. What has ended for good is
// swept out with the next tombstone, also when memory is full.
func TestScript_Tombstones(t *testing.T) {
	b := newBench(t)
	now := b.micros()
	for i := range 20 {
		z := redis.Z{Score: -float64(now - int64(i)*1_000_000), Member: fmt.Sprint("old-", i)}
		require.NoError(t, b.ZAdd(t.Context(), queueKey, z).Err())
	}
	b.memory("1")
	b.release("x-1", "0", 1)
	assert.Equal(t, []string{"x-1"}, b.ZRange(t.Context(), queueKey, 0, -1).Val())
	b.memory("0")
	before := b.ZScore(t.Context(), queueKey, "x-1").Val()
	assert.InDelta(t, now+time.Minute.Microseconds(), -before, 5e6)
	assert.Greater(t, b.lives(queueKey), 55*time.Second)
	for end := now + 200_000; b.micros() < end; {
	}
	b.release("y-1", "0", 1)
	b.finished("x-1")
	b.finished("y-1")
	assert.True(t, b.gone(lockKey))
}

// A tombstone and the claims that wait live equally long: one without the other would say that
// nobody asked.
func TestScript_QueueAndSeenLiveEquallyLong(t *testing.T) {
	b := newBench(t)
	b.holds("x-1")
	b.waits("y-1", "0", 0)
	for what, run := range map[string]func(){
		"a waiter": func() { b.waits("z-1", "0", 1) }, "a tombstone": func() { b.release("v-1", "0", 1) },
	} {
		require.NoError(t, b.PExpire(t.Context(), queueKey, 20*time.Second).Err())
		require.NoError(t, b.PExpire(t.Context(), seenKey, 20*time.Second).Err())
		run()
		assert.Greater(t, b.lives(queueKey), 50*time.Second, what)
		assert.Greater(t, b.lives(seenKey), 50*time.Second, what)
	}
}

// Memory that is full keeps nobody from confirming a grant or a hold, from renewing and releasing.
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

// A fence is above all that there is a reason to be above.
func TestScript_AFenceIsAbove(t *testing.T) {
	b, server := newSteppedBench(t)
	at, next, after := b.in(0), b.in(time.Microsecond), b.in(2*time.Microsecond)
	for name, c := range map[string]struct {
		last, above string
		want        string
	}{
		"the clock":                   {"", "0", at},
		"a last one with less digits": {"9 x-0", "0", at},
		"the clock in the same µs":    {at + " x-0", "0", "-" + next},
		"a floor of the same µs":      {"", at, "-" + next},
		"a floor with less digits":    {"", "99", at},
		"a last one ahead":            {next + " x-0", at, "-" + after},
		"a floor ahead":               {at + " x-0", next, "-" + after},
	} {
		server.FlushAll()
		if c.last != "" {
			require.NoError(t, b.Set(t.Context(), lastKey, c.last, time.Minute).Err())
		}
		fence := strings.TrimPrefix(c.want, "-")
		assert.Equal(t, said(c.want), b.acquireAbove("x-1", c.above), name)
		assert.True(t, strings.HasPrefix(b.last(), fence+" "), "%s: %s", name, b.last())
		assert.Equal(t, fence, b.line("x-1")[1], name)
	}
}

// What is no number, or one that no client takes for a fence, is no last fence.
func TestScript_ALastFenceThatIsNone(t *testing.T) {
	b := newBench(t)
	far := b.in(time.Hour)
	for _, last := range []string{
		"", "9007199254740992 ", "9007199254740991 x", "18446744073709551616 ", "99999999999999999 y-1",
		"0x7 ", "no fence y-1", "1x2 y-1", "1xxxxxxxxxxxxxxx y-1", "not ours",
	} {
		b.wipe()
		require.NoError(t, b.Set(t.Context(), lastKey, last, 0).Err())
		reply := b.acquire("x-1", "")
		require.Len(t, reply, 2, "%s: not ahead", last)
		assert.Len(t, reply[1], 16, last)
		assert.Less(t, reply[1], far, last)
	}
}

// A lock that was granted by a server that did not know what its fence must be above is
// confirmed under one that is.
func TestScript_AGrantBelowWhatItsClaimNeeds(t *testing.T) {
	b := newBench(t)
	fence := b.holds("x-1")
	require.Equal(t, []any{int64(1), fence}, b.acquireAbove("x-1", "1"))
	n, err := strconv.ParseInt(fence, 10, 64)
	require.NoError(t, err)
	far := strconv.FormatInt(n+time.Hour.Microseconds(), 10)
	above := b.acquireAbove("x-1", far)
	require.Equal(t, []any{int64(1), strconv.FormatInt(n+time.Hour.Microseconds()+1, 10), int64(1)}, above)
	require.Equal(t, above, b.acquireAbove("x-1", far), "and under the same from then on")
	require.NotEqual(t, above[1], b.acquireAbove("x-1", above[1].(string))[1], "equal is not above")
}

// What a claim knows of higher fences goes for all that are granted the lock in its call.
func TestScript_AFenceOfAGrantInTheCallOfAnother(t *testing.T) {
	b := newBench(t)
	b.listen("w")
	b.holds("x-1")
	b.waits("w-1", "0", 0)
	require.NoError(t, b.Del(t.Context(), lockKey).Err())
	far := b.in(time.Hour)
	require.EqualValues(t, 0, b.take("y-1", 60000, "0", "", far)[0], "w-1 was first")
	assert.Greater(t, b.line("w-1")[1], far)
}

// A release remembers the highest fence, whether its owner knows it or not, and for twice the ttl.
func TestScript_AReleaseRemembersTheHighestFence(t *testing.T) {
	b := newBench(t)
	for _, known := range []string{"0", "7", "99999"} {
		fence := b.holds("x-" + known)
		b.release("x-"+known, known, 0)
		assert.True(t, strings.HasPrefix(b.last(), fence+" x-"+known+" "), "%s: %s", known, b.last())
		assert.Greater(t, b.lives(lastKey), 115*time.Second)
	}
}

// What is remembered of a fence lives as long as the longest that any call asked for, and for a minute at
// least, whatever the ttl of the others is.
func TestScript_LastLivesNoShorter(t *testing.T) {
	b := newBench(t)
	takes := func(ttl int) { b.take("x-1", ttl, "", "", "0") }
	frees := func(ttl int) {
		require.EqualValues(t, 1, b.run("release", allKeys, releaseArgs("x-1", "1c:", ttl, "0", 0, 0)...)[0])
	}
	remembers := func(d time.Duration) {
		require.NoError(t, b.Set(t.Context(), lastKey, "1000000000000000 y-1 "+b.in(d), d).Err())
	}
	takes(600_000)
	frees(1000)
	assert.Greater(t, b.lives(lastKey), 19*time.Minute, "a release with a shorter ttl")

	b.wipe()
	remembers(time.Hour)
	takes(60_000)
	assert.Greater(t, b.lives(lastKey), 59*time.Minute, "a grant with a shorter ttl")

	b.wipe()
	remembers(70 * time.Second)
	takes(1000)
	remembers(10 * time.Second)
	frees(1000)
	assert.Greater(t, b.lives(lastKey), 50*time.Second, "a minute at least")
}

// A late command of the owner that released last gets nothing, and changes nothing. Nor does one of
// another try of its claim, with others in a batch or alone. Another claim gets the lock.
func TestScript_AnOwnerThatReleasedIsOver(t *testing.T) {
	b := newBench(t)
	for _, ttl := range []int{10_000, 600_000} { // last lives for as long as most, and for longer
		for _, late := range []string{"x-1~1", "x-1~2", "x-1"} {
			b.wipe()
			b.take("x-1~1", ttl, "", "", "0")
			b.run("release", allKeys, releaseArgs("x-1~1", "1c:", ttl, "0", 0, 0)...)
			before, lives := b.last(), b.lives(lastKey)
			require.Equal(t, []any{int64(-1)}, b.take(late, 1000, "0", "", "0"), late)
			require.Equal(t, []any{int64(-1)}, b.take(late, 1000, "", "", "0"), late)
			keys := []string{lockKey, queueKey, lastKey, "redlatch:{o}", "redlatch:{o}:queue", "redlatch:{o}:last"}
			reply := b.run("acquire_batch", keys, late, 60000, "", "o-1", 60000, "")
			require.Equal(t, int64(-1), reply[0], "acquire is to see to it")
			require.Greater(t, reply[1], int64(1))
			assert.Equal(t, before, b.last())
			assert.InDelta(t, lives, b.lives(lastKey), float64(5*time.Second))
			assert.True(t, b.gone(lockKey))
		}
	}
	b.wipe()
	b.release("y-1~1", b.holds("y-1~1"), 0)
	require.Greater(t, b.run("acquire_batch", []string{lockKey, queueKey, lastKey}, "x-1~2", 60000, "")[0], int64(1), "it was not the last")

	b.wipe()
	b.release("x-1~1", "0", 1)
	for _, owner := range []string{"x-1~1", "x-1~2", "x-1"} {
		b.finished(owner) // a tombstone is one of all its rounds
	}
	b.holds("x-2")
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

// The two in front are notified once that they are, and not at all if their own reply says so. A dead
// claim in second place is taken out.
func TestScript_TheFirstClaimIsNotifiedOnce(t *testing.T) {
	b := newBench(t)
	b.listen("a", "b", "c", "d")
	b.holds("x-1")
	for i, owner := range []string{"a-1", "b-1", "dead-1", "c-1", "d-1"} {
		b.waits(owner, "0", int64(i))
	}
	b.release("x-1", "0", 0)
	require.Equal(t, []string{"a-1"}, b.messages("a"), "its reply said that it is in front")
	require.Empty(t, b.messages("b"), "likewise")
	require.Equal(t, []string{"+c-1"}, b.messages("c"))
	require.Empty(t, b.messages("d"))
	require.Equal(t, []string{"b-1", "c-1", "d-1"}, b.ZRange(t.Context(), queueKey, 0, -1).Val())
	require.False(t, b.HExists(t.Context(), seenKey, "dead-1").Val())
	b.release("a-1", "0", 0)
	require.Equal(t, []string{"b-1"}, b.messages("b"))
	require.Empty(t, b.messages("c"), "it knows")
	require.Equal(t, []string{"+d-1"}, b.messages("d"))
}

// A claim that is granted the lock for itself alone is the last one that a call looks after: those
// that come later are asked nothing.
func TestScript_AGrantEndsTheCall(t *testing.T) {
	b := newBench(t)
	b.listen("a", "b")
	b.holds("x-1")
	b.waits("a-1", "0", 0)
	b.waits("b-1", "0", 1)
	silent := b.in(-3*time.Second) + "+"
	require.NoError(t, b.HSet(t.Context(), seenKey, "b-1", silent).Err())
	b.release("x-1", "0", 0)
	assert.Equal(t, []string{"a-1"}, b.messages("a"))
	assert.Empty(t, b.messages("b"))
	assert.Equal(t, silent, b.HGet(t.Context(), seenKey, "b-1").Val())
}

// Where several servers count, that nobody listens on this one means nothing.
func TestScript_ReceiversOfACluster(t *testing.T) {
	b := newBench(t)
	for prefix, granted := range map[string]bool{"1c:": false, "0c:": true} {
		b.wipe()
		b.holds("x-1")
		b.waits("w-1", "0", 0)
		b.run("release", allKeys, releaseArgs("x-1", prefix, 60000, "0", 0, 0)...)
		assert.Equal(t, granted, b.inside("w-1"), prefix)
	}
}

// Redis refuses the end of a hold: the script fails, and all is as it was before. Least of all a
// lock without an end stays.
func TestScript_ATakeThatIsRefused(t *testing.T) {
	b := newBench(t)
	for _, last := range []string{"", "1700000000000000 y-1"} {
		if last != "" {
			require.NoError(t, b.Set(t.Context(), lastKey, last, time.Minute).Err())
		}
		_, err := b.as("-pexpire").try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "meta", "0")...)
		require.Error(t, err)
		assert.True(t, b.gone(lockKey))
		assert.Equal(t, last, b.last())
		if last == "" {
			assert.True(t, b.gone(lastKey))
		} else {
			assert.InDelta(t, time.Minute, b.lives(lastKey), float64(time.Minute))
		}
		_, err = b.as("-pexpire", "-del").try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "meta", "9000000000000000")...)
		require.Error(t, err)
		assert.True(t, b.gone(lockKey), "not one field")
	}
	b.wipe()
	b.holds("x-1")
	_, err := b.as("-hmget").try("acquire", allKeys, acquireArgs("x-1", "1c:", 60000, "", "", "0")...)
	require.Error(t, err, "that it may not look is no word on the lock")
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

// Each claim of a batch has a ttl of its own, and so has what is remembered of its fence.
func TestScript_ABatchOfSeveralTTLs(t *testing.T) {
	b := newBench(t)
	var keys []string
	var args, releases []any
	for i, lock := range []string{"a", "b", "c"} {
		key, ttl := "redlatch:{"+lock+"}", []string{"60000", "600000", "60000"}[i]
		keys = append(keys, key, key+":queue", key+":last")
		args, releases = append(args, "x-"+lock, ttl, ""), append(releases, "x-"+lock, ttl, "1")
	}
	live := func() {
		assert.Less(t, b.lives("redlatch:{a}:last"), 3*time.Minute)
		assert.Greater(t, b.lives("redlatch:{b}:last"), 19*time.Minute)
	}
	require.NoError(t, b.Set(t.Context(), "redlatch:{c}:last", b.in(time.Hour)+" y-1", 0).Err())
	replies := b.run("acquire_batch", keys, args...)
	require.Len(t, replies, 3)
	assert.Positive(t, replies[0])
	assert.Positive(t, replies[1])
	assert.EqualValues(t, -1, replies[2], "ahead of the clock: acquire is to see to it")
	live()
	require.NoError(t, b.HSet(t.Context(), "redlatch:{c}", "x-c", "1").Err()) // not of our making
	assert.Equal(t, []any{int64(1), int64(1), int64(-1)}, b.run("release_batch", keys, releases...))
	live()
	assert.False(t, b.gone("redlatch:{c}"), "that is for release")
	for _, lock := range []string{"a", "b"} {
		assert.Contains(t, b.Get(t.Context(), "redlatch:{"+lock+"}:last").Val(), " x-"+lock+" ")
	}
}

// A confirmation is a write where replicas have to know of the hold.
func TestScript_AConfirmationThatIsAWrite(t *testing.T) {
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

// A hold that was revoked is not confirmed, not entered, not renewed, and its release says so: alone, beside
// others, and where it was granted before it asked. It keeps nothing.
func TestScript_AHoldThatWasRevoked(t *testing.T) {
	b := newBench(t)
	for owner, others := range map[string]int{"x-1": 0, "a-3.1": 0, "b-3.1": 1} {
		b.wipe()
		fence := b.holds(owner)
		for range others {
			b.holds("c-3.1")
		}
		b.revokes(owner)
		b.finished(owner)
		require.Equal(t, []any{int64(-1)}, b.acquire(owner, ""))
		require.EqualValues(t, 2, b.renew(owner, fence, 60000, 1))
		require.EqualValues(t, 2, b.renew(owner, fence, 0, 2))
		require.Equal(t, "1", b.line(owner)[0])
		if others == 0 {
			require.EqualValues(t, 3, b.releaseHeldOver(owner, 30000))
		} else {
			require.EqualValues(t, 3, b.release(owner, "0", 0))
		}
		require.False(t, b.inside(owner))
		require.EqualValues(t, others, b.Exists(t.Context(), lockKey).Val())
	}
	require.NoError(t, b.Del(t.Context(), allKeys...).Err())
	require.NoError(t, b.HSet(t.Context(), lockKey, "a-3.1", "1 1000 0 r ").Err())
	b.finished("a-3.1")
	require.EqualValues(t, 3, b.release("a-3.1", "0", 0))
	require.True(t, b.gone(lockKey))
}

// A renewal without a ttl sets the counter, and moves no expiry. It creates no hold.
func TestScript_ARenewalWithoutATTL(t *testing.T) {
	b := newBench(t)
	fence := b.holds("x-1")
	require.NoError(t, b.PExpire(t.Context(), lockKey, 20*time.Second).Err())
	require.EqualValues(t, 1, b.renew("x-1", fence, 0, 2))
	assert.Equal(t, "2", b.line("x-1")[0])
	assert.LessOrEqual(t, b.lives(lockKey), 20*time.Second)
	require.NoError(t, b.Persist(t.Context(), lockKey).Err())
	require.EqualValues(t, 1, b.renew("x-1", fence, 0, 1))
	assert.EqualValues(t, -1, b.lives(lockKey))
	require.EqualValues(t, 0, b.renew("z-1", fence, 0, 2))
	require.False(t, b.inside("z-1"))
}

// A key stays taken until its MinHold has passed. The owner has ended then.
func TestScript_AMinHold(t *testing.T) {
	b := newBench(t)
	fence := b.holds("x-1")
	b.waits("w-1", "0", 0)
	require.EqualValues(t, 4, b.releaseHeldOver("x-1", 30000))
	assert.InDelta(t, 29*time.Second, b.lives(lockKey), float64(time.Second))
	assert.Greater(t, b.lives(lastKey), 2*time.Minute, "the MinHold, and twice the ttl")
	assert.Regexp(t, "^"+fence+" x-1 \\d+$", b.last())
	assert.Equal(t, "0", b.line("x-1")[0], "nobody holds it")
	assert.False(t, b.inside("w-1"))
	b.finished("x-1")
	for _, owner := range []string{"y-1", "y-2.1", "y-0.1"} {
		assert.EqualValues(t, 1, b.busy(owner, "")[6], "%s hears so", owner)
	}
	require.EqualValues(t, 2, b.releaseHeldOver("x-1", 30000), "again")
	require.EqualValues(t, 0, b.renew("x-1", fence, 60000, 1), "its work is done")
	assert.LessOrEqual(t, b.lives(lockKey), 30*time.Second)
	b.wipe()
	b.holds("x-1")
	for _, owner := range []string{"y-1", "y-2.1", "y-0.1"} {
		assert.EqualValues(t, 0, b.busy(owner, "")[6], "x-1 is at work")
	}
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
		"under a fence that is ahead": {b.in(time.Hour), 3, "la" + b.in(-20*time.Second), 10 * time.Second},
		"the clock was set back":      {"0", 1, b.in(500 * time.Second), 30 * time.Second},
	} {
		server.FlushAll()
		b.acquireAbove("x-1", c.above)
		if c.above != "0" {
			assert.Equal(t, "la"+b.in(0), b.line("x-1")[3], "when it began")
		}
		b.change("x-1", c.word, c.to)
		b.releaseHeldOver("x-1", 30000)
		assert.Equal(t, c.rests, max(b.lives(lockKey), 0), name)
	}
}
