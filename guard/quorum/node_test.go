package quorum

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The Redis keys of the lock k.
const (
	lockKey  = "guard:{k}"
	queueKey = lockKey + ":queue"
	lastKey  = lockKey + ":last"
	wakeKey  = lockKey + ":wake"
)

// bench is one server, and what there is to see on it.
type bench struct {
	node
	*testing.T
	client *redis.Client
	ears   map[string]*redis.PubSub // by instance
}

func newBench(t *testing.T) *bench {
	t.Helper()
	client := redistest.Start(t).Client(t)
	b := &bench{newNode(client, "guard"), t, client, map[string]*redis.PubSub{}}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func minute(owner string) guardstore.Claim {
	return guardstore.Claim{Key: "k", Owner: owner, TTL: time.Minute, Metadata: "who"}
}

func (b *bench) acquire(owner string) guardstore.ClaimReply {
	b.Helper()
	r, err := b.Acquire(b.Context(), minute(owner))
	require.NoError(b, err)
	return r
}

// holds has an owner take the lock, and gives its fence.
func (b *bench) holds(owner string) uint64 {
	b.Helper()
	r := b.acquire(owner)
	require.Equal(b, guardstore.ClaimHeld, r.Status, owner)
	return r.Fence
}

func (b *bench) over(owner string) {
	b.Helper()
	require.Equal(b, guardstore.ClaimFinished, b.acquire(owner).Status, owner)
}

func (b *bench) peek(owner string, place uint64) guardstore.ClaimReply {
	b.Helper()
	c := minute(owner)
	c.Ticket = place
	r, err := b.Peek(b.Context(), c)
	require.NoError(b, err)
	return r
}

func (b *bench) release(owner string, minHold time.Duration) guardstore.ReleaseReply {
	b.Helper()
	r, err := b.Release(b.Context(), guardstore.Release{Key: "k", Owner: owner, TTL: time.Minute, MinHold: minHold})
	require.NoError(b, err)
	return r
}

func (b *bench) rollback(owner string, tombstone, notify bool) {
	b.Helper()
	require.NoError(b, b.Rollback(b.Context(), minute(owner), tombstone, notify))
}

// raise has an owner raise the fence, and says whether it holds the lock.
func (b *bench) raise(owner string, fence uint64) bool {
	b.Helper()
	held, err := b.RaiseFence(b.Context(), minute(owner), fence)
	require.NoError(b, err)
	return held
}

// listen has instances hear what they are told.
func (b *bench) listen(instances ...string) {
	b.Helper()
	for _, instance := range instances {
		ear := b.client.Subscribe(b.Context(), "guard:grant:"+instance)
		b.Cleanup(func() { _ = ear.Close() })
		_, err := ear.Receive(b.Context())
		require.NoError(b, err)
		b.ears[instance] = ear
	}
}

// heard are the messages to an instance since it was asked last.
func (b *bench) heard(instance string) (messages []string) {
	b.Helper()
	const mark = "end"
	require.NoError(b, b.client.Publish(b.Context(), "guard:grant:"+instance, mark).Err())
	for {
		m, err := b.ears[instance].ReceiveMessage(b.Context())
		require.NoError(b, err)
		if m.Payload == mark {
			return messages
		}
		messages = append(messages, m.Payload)
	}
}

func (b *bench) listed() []string { return b.client.ZRange(b.Context(), wakeKey, 0, -1).Val() }

func (b *bench) last() string { return b.client.Get(b.Context(), lastKey).Val() }

func (b *bench) lives(key string) time.Duration { return b.client.PTTL(b.Context(), key).Val() }

func (b *bench) now() time.Time {
	b.Helper()
	now, err := b.client.Time(b.Context()).Result()
	require.NoError(b, err)
	return now
}

func TestNode_TheWakeList(t *testing.T) {
	t.Parallel()
	free := guardstore.ClaimReply{Status: guardstore.ClaimBusy}
	t.Run("a place is kept", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		begun := b.now()
		first, second := b.peek("a-1", 0), b.peek("b-1", 0)
		assert.GreaterOrEqual(t, first.Ticket, uint64(begun.UnixMicro()), "a place is the time") //nolint:gosec // after 1970
		want := free
		want.Ticket = first.Ticket
		require.Equal(t, want, first)
		require.Equal(t, 1, second.Ahead)
		require.Equal(t, first, b.peek("a-1", 0), "its reply was lost")
		require.Equal(t, first, b.peek("a-1", 1), "whatever it brings")
		assert.Greater(t, b.lives(wakeKey), 55*time.Second)
	})
	t.Run("a place that it brings counts", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.peek("a-1", 0)
		want := free
		want.Ticket = 5
		require.Equal(t, want, b.peek("b-1", 5))
	})
	// This server's clock was set back.
	t.Run("a place is behind all others", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		first := b.peek("a-1", 0)
		require.NoError(t, b.client.ZAdd(t.Context(), wakeKey, redis.Z{Score: 1 << 52, Member: "far-1"}).Err())
		for i, owner := range []string{"b-1", "c-1"} {
			want := free
			want.Ticket, want.Ahead = 1<<52+1+uint64(i), 2+i //nolint:gosec // small
			require.Equal(t, want, b.peek(owner, 0))
		}
		require.Equal(t, first, b.peek("a-1", 0))
	})
	t.Run("who is over is not in it", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.rollback("x-1", true, false)
		assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimFinished}, b.peek("x-1", 0))
		assert.Empty(t, b.listed())
	})
}

// What there is to see of the lock, whatever is under its key.
func TestNode_WhatPeekShowsOfTheLock(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.client.Set(t.Context(), lockKey, "text", 0).Err())
	assert.Greater(t, b.peek("a-1", 0).Remaining, 24*time.Hour, "it is taken, for ever")
	require.NoError(t, b.client.Set(t.Context(), lockKey, "text", time.Minute).Err())
	assert.InDelta(t, time.Minute, b.peek("a-1", 0).Remaining, float64(5*time.Second))

	require.NoError(t, b.client.Del(t.Context(), lockKey).Err())
	assert.Zero(t, b.peek("a-1", 0).Remaining)
	b.holds("x-1~1")
	seen := b.peek("a-1", 0)
	assert.InDelta(t, time.Minute, seen.Remaining, float64(5*time.Second))
	assert.Equal(t, "who", seen.Holder)
	assert.False(t, seen.Done)

	assert.True(t, b.release("x-1~1", 30*time.Second).HeldOver)
	seen = b.peek("a-1", 0)
	assert.InDelta(t, 30*time.Second, seen.Remaining, float64(5*time.Second))
	assert.True(t, seen.Done)
}

// The end of a hold notifies the first of those who wait, and the second that it is in front. A
// claim that never held, and one whose MinHold is not over, only leaves the list.
func TestNode_ReleaseNotifiesThoseWhoWait(t *testing.T) {
	t.Parallel()
	waiters := func(t *testing.T, owners ...string) *bench {
		t.Helper()
		b := newBench(t)
		b.listen("a", "b", "c")
		b.holds("x-1~1")
		for _, owner := range owners {
			b.peek(owner, 0)
		}
		return b
	}
	told := func(b *bench, left ...string) {
		b.Helper()
		assert.Equal(b, []string{"a-1"}, b.heard("a"))
		assert.Equal(b, []string{"+b-1"}, b.heard("b"))
		assert.Empty(b, b.heard("c"))
		assert.Equal(b, left, b.listed())
	}
	t.Run("a hold", func(t *testing.T) {
		t.Parallel()
		b := waiters(t, "x-1", "a-1", "b-1", "c-1")
		assert.Equal(t, guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, b.release("x-1~1", 0))
		told(b, "b-1", "c-1")
	})
	t.Run("a hold that was revoked", func(t *testing.T) {
		t.Parallel()
		b := waiters(t, "a-1", "b-1")
		line := strings.Fields(b.client.HGet(t.Context(), lockKey, "x-1~1").Val())
		line[3] = "r"
		require.NoError(t, b.client.HSet(t.Context(), lockKey, "x-1~1", strings.Join(line, " ")).Err())
		assert.Equal(t, guardstore.ReleaseReply{Status: guardstore.ReleaseRevoked}, b.release("x-1~1", 0))
		told(b, "b-1")
	})
	t.Run("a round that failed", func(t *testing.T) {
		t.Parallel()
		b := waiters(t, "a-1", "b-1")
		b.rollback("x-1~1", false, false)
		assert.Len(t, b.listed(), 2)
		b.rollback("x-1~1", false, true)
		told(b, "b-1")
	})
	t.Run("who does not listen is passed over", func(t *testing.T) {
		t.Parallel()
		b := waiters(t, "dead-1", "a-1", "gone-1", "b-1")
		b.release("x-1~1", 0)
		told(b, "b-1")
	})
	for name, end := range map[string]func(b *bench){
		"a claim that never held": func(b *bench) { b.release("a-1", 0) },
		"a MinHold is not over":   func(b *bench) { b.peek("x-1", 0); b.release("x-1~1", time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := waiters(t, "a-1", "b-1")
			b.peek("x-1", 0)
			end(b)
			assert.Empty(t, b.heard("a"))
			assert.Empty(t, b.heard("b"))
			assert.Len(t, b.listed(), 2)
		})
	}
}

// What is no list of those who wait keeps nobody from a release.
func TestNode_ReleaseBesideAListOfAnotherType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1~1")
	require.NoError(t, b.client.Set(t.Context(), wakeKey, "text", 0).Err())
	assert.Equal(t, guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, b.release("x-1~1", 0))
	b.holds("y-1~1")
}

// What Redis refuses of a release is refused.
func TestNode_ReleaseOfALockOfAnotherType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.client.Set(t.Context(), lockKey, "text", 0).Err())
	_, err := b.Release(t.Context(), guardstore.Release{Key: "k", Owner: "x-1~1", TTL: time.Minute, Fence: 1})
	var refused *guardstore.RefusedError
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "WRONGTYPE")
}

// A rollback takes back one's own, and leaves that of others.
func TestNode_Rollback(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1~1")
	b.rollback("y-1~1", true, false)
	require.True(t, b.client.HExists(t.Context(), lockKey, "x-1~1").Val())
	b.rollback("x-1~1", false, false)
	require.Zero(t, b.client.Exists(t.Context(), lockKey).Val())
	require.NotContains(t, b.last(), "x-1", "it did not release")
	b.holds("x-1~1") // nothing of it was on its way
	b.rollback("x-1~1", false, false)
	b.over("y-1~1")
	b.holds("y-1~2") // another round is not over
}

// A round takes back what it got, and its tombstone is written whatever is under the key.
func TestNode_RollbackOfALockOfAnotherType(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.client.Set(t.Context(), lockKey, "text", 0).Err())
	b.rollback("x-1~1", true, false)
	assert.Equal(t, "text", b.client.Get(t.Context(), lockKey).Val())
	require.NoError(t, b.client.Del(t.Context(), lockKey).Err())
	b.over("x-1~1")
}

// Without being asked to, a round that failed leaves nothing.
func TestNode_RollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.rollback("x-1~1", false, true)
	assert.Zero(t, b.client.DBSize(t.Context()).Val())
	b.holds("x-1~2")
	b.rollback("x-1~2", false, true)
	assert.Equal(t, []string{lastKey}, b.client.Keys(t.Context(), "*").Val())
}

// A tombstone lives for a minute, and that of another round does not end it. What is over for good
// is swept out with the next one, also when memory is full.
func TestNode_RollbackLeavesATombstone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := b.now()
	for i := range 20 {
		z := redis.Z{Score: -float64(now.Add(-time.Duration(i) * time.Second).UnixMicro()), Member: fmt.Sprint("old-", i)}
		require.NoError(t, b.client.ZAdd(t.Context(), queueKey, z).Err())
	}
	require.NoError(t, b.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	b.rollback("x-1~1", true, false)
	assert.Equal(t, []string{"x-1~1"}, b.client.ZRange(t.Context(), queueKey, 0, -1).Val())
	require.NoError(t, b.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	until := -b.client.ZScore(t.Context(), queueKey, "x-1~1").Val()
	assert.InDelta(t, now.Add(time.Minute).UnixMicro(), until, float64(5*time.Second/time.Microsecond))
	assert.Greater(t, b.lives(queueKey), 55*time.Second)
	for end := now.Add(200 * time.Millisecond); now.Before(end); {
		now = b.now()
	}
	b.rollback("y-1~1", true, false)
	b.over("x-1~1")
	b.over("y-1~1")
}

// Who lost its lock on a server raises nothing there, and a raise lowers nothing.
func TestNode_Raise(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.False(t, b.raise("x-1", 1<<52))
	assert.Zero(t, b.client.DBSize(t.Context()).Val())

	b.holds("x-1")
	for _, c := range []struct {
		last  string
		fence uint64
		want  string
	}{
		{"900 ", 1000, "1000 "}, {"1000 ", 900, "1000 "}, {"1000 ", 1000, "1000 "}, {"no fence", 7, "7 "},
	} {
		require.NoError(t, b.client.Set(t.Context(), lastKey, c.last, time.Hour).Err())
		require.True(t, b.raise("x-1", c.fence))
		assert.True(t, strings.HasPrefix(b.last(), c.want), "%+v: %s", c, b.last())
		assert.Greater(t, b.lives(lastKey), 55*time.Minute, "it lives no shorter")
	}
}

// A raised fence is remembered until the clock is past it, and for as long as it was to be, also
// by the release of the hold.
func TestNode_RaiseOutlivesTheHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	short := minute("x-1~1")
	short.TTL = 20 * time.Second // for which alone last would live for a minute
	_, err := b.Acquire(t.Context(), short)
	require.NoError(t, err)
	far := uint64(time.Now().Add(3 * time.Hour).UnixMicro()) //nolint:gosec // after 1970
	require.True(t, b.raise("x-1~1", far))
	assert.Greater(t, b.lives(lastKey), 3*time.Hour)
	assert.Equal(t, "l", strings.Fields(b.client.HGet(t.Context(), lockKey, "x-1~1").Val())[3])
	_, err = b.Release(t.Context(), guardstore.Release{Key: "k", Owner: "x-1~1", Fence: far, TTL: time.Minute})
	require.NoError(t, err)
	assert.Greater(t, b.lives(lastKey), 3*time.Hour-time.Minute)
	assert.Contains(t, b.last(), strconv.FormatUint(far, 10)+" x-1~1 ")
}

// A raised fence is remembered for twice the ttl.
func TestNode_RaiseLivesForTwiceTheTTL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1~1")
	require.NoError(t, b.client.Del(t.Context(), lastKey).Err())
	long := minute("x-1~1")
	long.TTL = 10 * time.Minute
	held, err := b.RaiseFence(t.Context(), long, uint64(b.now().UnixMicro())) //nolint:gosec // after 1970
	require.NoError(t, err)
	require.True(t, held)
	assert.Greater(t, b.lives(lastKey), 19*time.Minute)
}

// An owner whose work is done holds nothing, though its MinHold is not over: it raises nothing, and a rollback
// does not end the MinHold.
func TestNode_AnOwnerWhoseMinHoldLasts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.holds("x-1~1")
	b.release("x-1~1", 30*time.Second)
	before := b.last()
	require.False(t, b.raise("x-1~1", 1<<52))
	assert.Equal(t, before, b.last())
	b.rollback("x-1~1", false, false)
	assert.Greater(t, b.lives(lockKey), 25*time.Second)
}
