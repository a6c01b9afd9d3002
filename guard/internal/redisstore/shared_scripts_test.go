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

// The tests of this file are about the scripts of those who tolerate others, one rule at a time.

func (b *bench) share(owner string, ttl int, place, meta, above string) []any {
	b.Helper()
	return said(b.run("acquire", allKeys, acquireArgs(owner, "1c:", ttl, place, meta, above)...)...)
}

// gets has an owner in, and gives its fence.
func (b *bench) gets(owner string) string {
	b.Helper()
	reply := b.share(owner, 60000, "", "", "0")
	require.EqualValues(b, 1, reply[0], "%s: %v", owner, reply)
	return reply[1].(string)
}

func (b *bench) renewShared(owner, fence string, ttl int) int64 {
	b.Helper()
	return b.run("renew", renewKeys, owner, fence, ttl, 1, "")[0].(int64)
}

func (b *bench) unshare(owner string, tombstone int) int64 {
	b.Helper()
	return b.run("release", allKeys, releaseArgs(owner, "1c:", 60000, "0", tombstone, 0)...)[0].(int64)
}

// field is what the lock has of an owner.
func (b *bench) field(owner string) (fence, expiry string) {
	b.Helper()
	words := b.line(owner)
	return words[1], words[2]
}

// ends sets when an owner's time is over.
func (b *bench) ends(owner string, in time.Duration) {
	b.Helper()
	now, err := b.Time(b.Context()).Result()
	require.NoError(b, err)
	at := now.Add(in).UnixMicro()
	b.change(owner, 2, at)
	require.NoError(b, b.ZAdd(b.Context(), lockKey+":holders", redis.Z{Score: float64(at), Member: owner}).Err())
}

func (b *bench) revokes(owner string) {
	b.Helper()
	b.change(owner, 3, "r")
}

// A hold that was revoked is not confirmed, nor renewed, and its release says so: alone, beside
// others, and as an exclusive one.
func TestSharedScripts_ASharedHoldThatWasRevoked(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		b := newBench(t)
		fence := b.gets("a-3.1")
		for i := range others {
			b.gets(fmt.Sprint("b-3.", i+1))
		}
		b.revokes("a-3.1")
		require.Equal(t, []any{int64(-1)}, b.share("a-3.1", 60000, "", "", "0"))
		require.EqualValues(t, 2, b.renewShared("a-3.1", fence, 60000))
		require.EqualValues(t, 3, b.unshare("a-3.1", 0))
		require.False(t, b.HExists(t.Context(), lockKey, "a-3.1").Val())
		require.EqualValues(t, others, b.Exists(t.Context(), lockKey).Val())
	}
	// It was granted the lock by a release, as an exclusive owner is, and revoked before it asked.
	b := newBench(t)
	require.NoError(t, b.HSet(t.Context(), lockKey, "a-3.1", "1 1000 0 r ").Err())
	require.Equal(t, []any{int64(-1)}, b.share("a-3.1", 60000, "", "", "0"))
	require.EqualValues(t, 3, b.unshare("a-3.1", 0))
	require.Zero(t, b.Exists(t.Context(), lockKey).Val())
}

// Confirmed, a hold lasts no shorter, nor does the lock; longer it may.
func TestSharedScripts_ASharedHoldIsNotShortened(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.gets("a-3.1")
	b.gets("b-3.1")
	_, before := b.field("a-3.1")
	for _, less := range []func(){
		func() { b.share("a-3.1", 100, "", "", "0") },
		func() { require.EqualValues(t, 1, b.renewShared("a-3.1", fence, 100)) },
	} {
		less()
		same, after := b.field("a-3.1")
		assert.Equal(t, before, after)
		assert.Equal(t, fence, same)
		assert.Greater(t, b.lives(lockKey), 50*time.Second)
	}
	for i, more := range []func(ttl int){
		func(ttl int) { b.share("a-3.1", ttl, "", "", "0") },
		func(ttl int) { require.EqualValues(t, 1, b.renewShared("a-3.1", fence, ttl)) },
	} {
		ttl := 120000 * (i + 1)
		more(ttl)
		_, after := b.field("a-3.1")
		assert.Greater(t, after, before)
		assert.Greater(t, b.lives(lockKey), time.Duration(ttl-10000)*time.Millisecond)
		before = after
	}
	require.Zero(t, b.renewShared("a-3.1", "7", 60000), "not its fence")
	require.Zero(t, b.renewShared("nobody-3.1", fence, 60000))
}

// A hold whose fence is not above what its owner needs gets another, which nobody else gets.
func TestSharedScripts_ASharedFenceIsAbove(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.gets("a-3.1")
	second := b.gets("b-3.1")
	assert.Greater(t, second, first)
	far := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	for _, above := range []string{first, far} {
		reply := b.share("a-3.1", 60000, "", "", above)
		require.EqualValues(t, 1, reply[0])
		assert.Greater(t, reply[1].(string), above)
		assert.Greater(t, reply[1].(string), second, "of all inside")
	}
	third := b.gets("c-3.1")
	assert.Greater(t, third, far)
	assert.True(t, strings.HasPrefix(b.last(), third), "what is ahead of the clock is remembered")
	assert.Greater(t, b.lives(lastKey), time.Hour)

	// The same for one that was granted the lock alone.
	b = newBench(t)
	require.NoError(t, b.HSet(t.Context(), lockKey, "a-3.1", "1 1000 0 - ").Err())
	assert.Greater(t, b.share("a-3.1", 60000, "", "", far)[1].(string), far)
	assert.Greater(t, b.gets("b-3.1"), far)
}

// Who is kept out hears when the first of those inside may be over, and how many they tolerate.
func TestSharedScripts_WhatSharedBusySays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.share("a-2.1", 60000, "", "first", "0")
	b.share("b-2.1", 30000, "", "latest", "0")
	reply := b.share("c-2.1", 60000, "", "", "0")
	require.EqualValues(t, 0, reply[0])
	assert.InDelta(t, 30000, reply[1], 5000)
	assert.Equal(t, "first", reply[2], "who is inside for longest")
	assert.Equal(t, "0", reply[3])
	assert.Equal(t, []any{int64(0), int64(2), int64(0)}, reply[4:])
	assert.Equal(t, int64(1), b.share("d-2.1", 60000, "0", "", "0")[4].(int64)+1)
	assert.EqualValues(t, 1, b.share("e-2.1", 60000, "0", "", "0")[4])

	exclusive := b.acquire("x-1", "")
	require.EqualValues(t, 0, exclusive[0])
	assert.EqualValues(t, 2, exclusive[5], "%v", exclusive)

	b = newBench(t)
	b.gets("a-0.1")
	b.gets("b-0.1")
	exclusive = b.acquire("x-1", "")
	assert.EqualValues(t, 0, exclusive[0])
	b.holdsNothingElse()

	b = newBench(t)
	b.holds("x-1")
	reply = b.share("c-2.1", 60000, "", "", "0")
	assert.InDelta(t, 60000, reply[1], 5000)
	assert.EqualValues(t, 1, reply[5])
}

// holdsNothingElse: who was kept out left nothing behind.
func (b *bench) holdsNothingElse() {
	b.Helper()
	assert.Zero(b, b.Exists(b.Context(), queueKey, seenKey).Val())
}

// What is not understood is taken.
func TestSharedScripts_SharedBesideWhatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(b *bench) error{
		"text":   func(b *bench) error { return b.Set(b.Context(), lockKey, "text", 0).Err() },
		"a hash": func(b *bench) error { return b.HSet(b.Context(), lockKey, "a-2.1", "1").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, make(b))
			for _, place := range []string{"", "0"} {
				reply := b.share("a-2.1", 60000, place, "", "0")
				require.EqualValues(t, 0, reply[0])
			}
			reply, err := b.try("release", allKeys, releaseArgs("a-2.1", "1c:", 60000, "0", 0, 0)...)
			if name == "text" {
				require.ErrorContains(t, err, "WRONGTYPE")
			} else {
				require.EqualValues(t, 0, reply)
			}
			require.EqualValues(t, 1, b.Exists(t.Context(), lockKey).Val())
			require.Zero(t, b.ZCard(t.Context(), queueKey).Val())
		})
	}
}

// All who are inside let their time run out: the next fence is above theirs all the same, though
// the clock is not.
func TestSharedScripts_FencesOfThoseWhoLapsedStayKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.gets("a-2.1")
	far := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	fence := b.share("b-2.1", 60000, "", "", far)[1].(string)
	require.NoError(t, b.Del(t.Context(), lastKey).Err())
	b.ends("a-2.1", -time.Second)
	b.ends("b-2.1", -time.Second)
	reply := b.acquire("x-1", "")
	require.EqualValues(t, 1, reply[0])
	assert.Greater(t, reply[1], fence)
}

// One whose time is over does not hold: not for a renewal, not for its release, not for a count.
func TestSharedScripts_ASharedHoldThatLapsed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.gets("a-2.1")
	b.gets("b-2.1")
	b.ends("a-2.1", -time.Second)
	require.Zero(t, b.renewShared("a-2.1", fence, 60000))
	b.gets("c-2.1")
	require.False(t, b.HExists(t.Context(), lockKey, "a-2.1").Val())
	b.ends("b-2.1", -time.Second)
	require.Zero(t, b.unshare("b-2.1", 0), "it was over")
	require.EqualValues(t, 1, b.unshare("c-2.1", 0))
	require.EqualValues(t, 2, b.unshare("c-2.1", 1), "again")
	require.Zero(t, b.Exists(t.Context(), lockKey).Val())
}

// Who waits in front, and was not seen for long, is granted nothing, though its process listens.
func TestSharedScripts_ASharedGrantIsNotForTheDead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("dead")
	b.gets("a-2.1")
	require.NoError(t, b.ZAdd(t.Context(), queueKey, redis.Z{Score: 1, Member: "dead-2.1"}).Err())
	reply := b.share("b-2.1", 60000, "0", "", "0")
	require.EqualValues(t, 1, reply[0], "%v", reply)
	assert.False(t, b.HExists(t.Context(), lockKey, "dead-2.1").Val())
	assert.Empty(t, b.heard("dead"))
	assert.Zero(t, b.ZCard(t.Context(), queueKey).Val())
}

// A release takes nobody along, and the last one remembers the highest fence.
func TestSharedScripts_WhatIsLeftOfASharedHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.gets("a-2.1")
	highest := b.gets("b-2.1")
	require.EqualValues(t, 1, b.unshare("b-2.1", 0))
	require.True(t, b.HExists(t.Context(), lockKey, "a-2.1").Val())
	require.EqualValues(t, 1, b.unshare("a-2.1", 1))
	assert.Regexp(t, "^"+highest+" a-2.1 \\d+$", b.last())
	assert.Greater(t, b.lives(lastKey), 100*time.Second)
	assert.Negative(t, b.ZScore(t.Context(), queueKey, "a-2.1").Val())
	assert.InDelta(t, time.Now().Add(time.Minute).UnixMicro(), -b.ZScore(t.Context(), queueKey, "a-2.1").Val(), 5e6)
	require.Equal(t, []any{int64(-1)}, b.share("a-2.1", 60000, "", "", "0"))
	require.Equal(t, []any{int64(-1)}, b.share("a-2.1", 60000, "0", "", "0"))
}

// A holder needs no memory to renew and to release.
func TestSharedScripts_ASharedHolderDoesNotNeedMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fence := b.gets("a-2.1")
	b.gets("b-2.1")
	b.full()
	require.EqualValues(t, 1, b.renewShared("a-2.1", fence, 30000), "the lock itself lasts long enough")
	require.EqualValues(t, 1, b.renewShared("a-2.1", fence, 120000))
	require.EqualValues(t, 1, b.unshare("a-2.1", 1))
	require.EqualValues(t, 1, b.unshare("b-2.1", 0))
}

// One in front that does not fit keeps those after it out, for as long as it is alive: it asks each second. Where
// it does not, it is notified again, and has three seconds.
func TestSharedScripts_SharedBehindOneThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		asked, notified time.Duration // how long ago; 0: never
		passed, again   bool
	}{
		"asks":                             {asked: time.Second},
		"is silent":                        {asked: 3 * time.Second, again: true},
		"is silent, and was just notified": {asked: 5 * time.Second, notified: time.Second},
		"is silent, though notified":       {asked: 9 * time.Second, notified: 5 * time.Second, passed: true},
		"was not seen":                     {passed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.listen("w", "r")
			b.gets("a-0.1")
			b.waits2("w-1")
			require.EqualValues(t, 0, b.share("r-0.1", 60000, "0", "", "0")[0])
			at, seen := b.micros(), ""
			if test.asked > 0 {
				seen = fmt.Sprint(at - test.asked.Microseconds())
			}
			if test.notified > 0 {
				seen += fmt.Sprint(".", at-test.notified.Microseconds())
			}
			require.NoError(t, b.HSet(t.Context(), seenKey, "w-1", seen+"+").Err())
			b.heard("w")

			reply := b.share("r-0.1", 60000, "0", "", "0")
			assert.Equal(t, test.passed, reply[0] == int64(1), "%v", reply)
			var want []string
			if test.again {
				want = []string{"+w-1"}
				assert.Contains(t, b.HGet(t.Context(), seenKey, "w-1").Val(), seen+".", "that is noted")
			}
			assert.Equal(t, want, b.heard("w"))
			assert.Equal(t, !test.passed, b.HExists(t.Context(), seenKey, "w-1").Val())
		})
	}
}

// One call grants a bounded number of those who wait; each of those asks, and goes on.
func TestSharedScripts_SharedGrantsOfOneCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("r")
	b.holds("x-1")
	for i := range 20 {
		require.EqualValues(t, 0, b.share(fmt.Sprint("r-0.", i), 60000, "0", "", "0")[0])
	}
	b.release("x-1", "0", 0)
	assert.EqualValues(t, 4, b.ZCount(t.Context(), queueKey, "(0", "+inf").Val())
	b.gets("r-0.0")
	assert.Zero(t, b.ZCount(t.Context(), queueKey, "(0", "+inf").Val())
}

// A confirmation lets in those who fit beside the hold, too: what kept them out may be gone.
func TestSharedScripts_SharedConfirmationLetsOthersIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.listen("r")
	b.gets("a-0.1")
	b.waits2("w-1")
	require.EqualValues(t, 0, b.share("r-0.1", 60000, "0", "", "0")[0])
	require.NoError(t, b.ZRem(t.Context(), queueKey, "w-1").Err())
	b.gets("a-0.1")
	assert.True(t, b.HExists(t.Context(), lockKey, "r-0.1").Val())
	assert.Equal(t, []string{"r-0.1"}, b.heard("r"))
}

// What says who is inside says nothing of earlier holders.
func TestSharedScripts_SharedForgetsEarlierHolders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stale := func() {
		require.NoError(t, b.ZAdd(t.Context(), lockKey+":holders",
			redis.Z{Score: 9e15, Member: "old-1"}, redis.Z{Score: -1, Member: "limit old-1"}).Err())
	}
	b.gets("a-0.1")
	stale()
	b.gets("b-0.1")
	b.gets("c-0.1")
	stale()
	for _, owner := range []string{"a-0.1", "b-0.1", "c-0.1"} {
		require.EqualValues(t, 1, b.unshare(owner, 0))
	}
	assert.Zero(t, b.Exists(t.Context(), lockKey, lockKey+":holders").Val())
}
