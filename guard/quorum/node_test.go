package quorum

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
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
	lockKey  = "redlatch:{k}"
	endedKey = lockKey + ":ended"
	wakeKey  = lockKey + ":wake"
)

// bench is one server, and what there is to see on it.
type bench struct {
	node
	*testing.T
	client    *redis.Client
	listeners map[string]*redis.PubSub // by instance
}

// newBench starts a server for a parallel test.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	client := redistest.Start(t).Client(t)
	b := &bench{newNode(client, "redlatch"), t, client, map[string]*redis.PubSub{}}
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

func (b *bench) finished(owner string) {
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

// listen subscribes instances to their notifications.
func (b *bench) listen(instances ...string) {
	b.Helper()
	for _, instance := range instances {
		ear := b.client.Subscribe(b.Context(), "redlatch:grant:"+instance)
		b.Cleanup(func() { _ = ear.Close() })
		_, err := ear.Receive(b.Context())
		require.NoError(b, err)
		b.listeners[instance] = ear
	}
}

// messages are those to an instance since it was asked last.
func (b *bench) messages(instance string) (payloads []string) {
	b.Helper()
	const mark = "end"
	require.NoError(b, b.client.Publish(b.Context(), "redlatch:grant:"+instance, mark).Err())
	for {
		m, err := b.listeners[instance].ReceiveMessage(b.Context())
		require.NoError(b, err)
		if m.Payload == mark {
			return payloads
		}
		payloads = append(payloads, m.Payload)
	}
}

func (b *bench) listed() []string { return b.client.ZRange(b.Context(), wakeKey, 0, -1).Val() }

// ahead is the fence ahead of the clock that the server remembers; 0 if there is none.
func (b *bench) ahead() uint64 { return uint64(b.client.ZScore(b.Context(), endedKey, "@fence").Val()) }

func (b *bench) lives(key string) time.Duration { return b.client.PTTL(b.Context(), key).Val() }

func (b *bench) now() time.Time {
	b.Helper()
	now, err := b.client.Time(b.Context()).Result()
	require.NoError(b, err)
	return now
}

// A place is the time, is kept whatever the claim brings, and is after all others, also when the
// server's clock was set back.
func TestNode_PlacesInTheWakeList(t *testing.T) {
	b := newBench(t)
	place := func(ticket uint64, ahead int) guardstore.ClaimReply {
		return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: ticket, Ahead: ahead}
	}
	begun := b.now()
	first := b.peek("a-1", 0)
	assert.GreaterOrEqual(t, first.Ticket, uint64(begun.UnixMicro()))
	require.Equal(t, place(first.Ticket, 0), first)
	require.Equal(t, 1, b.peek("b-1", 0).Ahead)
	require.Equal(t, first, b.peek("a-1", 0), "its reply was lost")
	require.Equal(t, first, b.peek("a-1", 1), "whatever it brings")
	assert.Greater(t, b.lives(wakeKey), 55*time.Second)
	require.NoError(t, b.client.ZAdd(t.Context(), wakeKey, redis.Z{Score: 1 << 52, Member: "far-1"}).Err())
	require.Equal(t, place(1<<52+1, 3), b.peek("c-1", 0))
	require.Equal(t, place(1<<52+2, 4), b.peek("d-1", 0))
	require.Equal(t, first, b.peek("a-1", 0))
	require.Equal(t, place(5, 0), b.peek("e-1", 5), "the place that it brings")
	b.rollback("x-1", true, false)
	assert.Equal(t, guardstore.ClaimReply{Status: guardstore.ClaimFinished}, b.peek("x-1", 0))
	assert.NotContains(t, b.listed(), "x-1")
}

// What there is to see of the lock, whatever is under its key.
func TestNode_WhatPeekShowsOfTheLock(t *testing.T) {
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

// The end of a hold notifies the first claim in the list, and the second that it is in front. A
// claim that never held, and one whose MinHold has not passed, only leaves the list.
func TestNode_ReleaseNotifiesTheList(t *testing.T) {
	t.Parallel()
	done := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
	for name, c := range map[string]struct {
		list     string // in order
		end      func(b *bench)
		notifies bool
		left     string
	}{
		"a hold": {"x-1 a-1 b-1 c-1", func(b *bench) { assert.Equal(b, done, b.release("x-1~1", 0)) }, true, "b-1 c-1"},
		"a hold that was revoked": {"a-1 b-1", func(b *bench) {
			line := strings.Fields(b.client.HGet(b.Context(), lockKey, "x-1~1").Val())
			line[3] = "r"
			require.NoError(b, b.client.HSet(b.Context(), lockKey, "x-1~1", strings.Join(line, " ")).Err())
			assert.Equal(b, guardstore.ReleaseReply{Status: guardstore.ReleaseRevoked}, b.release("x-1~1", 0))
		}, true, "b-1"},
		"a round that failed":              {"a-1 b-1", func(b *bench) { b.rollback("x-1~1", false, true) }, true, "b-1"},
		"a round that notifies nobody":     {"a-1 b-1", func(b *bench) { b.rollback("x-1~1", false, false) }, false, "a-1 b-1"},
		"a claim that does not listen":     {"dead-1 a-1 gone-1 b-1", func(b *bench) { b.release("x-1~1", 0) }, true, "b-1"},
		"a claim that never held":          {"a-1 b-1 c-1", func(b *bench) { b.release("a-1", 0) }, false, "b-1 c-1"},
		"a hold whose MinHold is not over": {"a-1 b-1 x-1", func(b *bench) { b.release("x-1~1", time.Minute) }, false, "a-1 b-1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.listen("a", "b", "c")
			b.holds("x-1~1")
			for owner := range strings.FieldsSeq(c.list) {
				b.peek(owner, 0)
			}
			c.end(b)
			a, second := []string(nil), []string(nil)
			if c.notifies {
				a, second = []string{"a-1"}, []string{"+b-1"}
			}
			assert.Equal(t, a, b.messages("a"))
			assert.Equal(t, second, b.messages("b"))
			assert.Empty(t, b.messages("c"))
			assert.Equal(t, c.left, strings.Join(b.listed(), " "))
		})
	}
}

// A rollback takes back one's own, and leaves that of others. Without need it leaves nothing.
func TestNode_Rollback(t *testing.T) {
	b := newBench(t)
	b.rollback("z-1~1", false, true)
	assert.Zero(t, b.client.DBSize(t.Context()).Val())
	b.holds("x-1~1")
	b.rollback("y-1~1", true, false)
	require.True(t, b.client.HExists(t.Context(), lockKey, "x-1~1").Val())
	b.rollback("x-1~1", false, false)
	require.Zero(t, b.client.Exists(t.Context(), lockKey).Val())
	b.holds("x-1~1") // nothing of it was on its way
	b.rollback("x-1~1", false, false)
	b.finished("y-1~1")
	b.holds("y-1~2") // another round has not ended
}

// A list of another type prevents no release, a lock of another type keeps no tombstone
// from being written. What Redis refuses of a release is refused.
func TestNode_KeysOfAnotherType(t *testing.T) {
	b := newBench(t)
	b.holds("x-1~1")
	require.NoError(t, b.client.Set(t.Context(), wakeKey, "text", 0).Err())
	assert.Equal(t, guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, b.release("x-1~1", 0))

	require.NoError(t, b.client.Set(t.Context(), lockKey, "text", 0).Err())
	_, err := b.Release(t.Context(), guardstore.Release{Key: "k", Owner: "x-1~1", TTL: time.Minute, Fence: 1})
	var refused *guardstore.RefusedError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "WRONGTYPE")
	b.rollback("y-1~1", true, false)
	assert.Equal(t, "text", b.client.Get(t.Context(), lockKey).Val())
	require.NoError(t, b.client.Del(t.Context(), lockKey).Err())
	b.finished("y-1~1")
}

// A tombstone lives for a minute, and that of another round does not end it. What has ended for good
// is swept out with the next one, also when memory is full.
func TestNode_RollbackLeavesATombstone(t *testing.T) {
	b := newBench(t)
	now := b.now()
	for i := range 20 {
		z := redis.Z{Score: float64(now.Add(-time.Duration(i) * time.Second).UnixMicro()), Member: fmt.Sprint("old-", i)}
		require.NoError(t, b.client.ZAdd(t.Context(), endedKey, z).Err())
	}
	require.NoError(t, b.client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	b.rollback("x-1~1", true, false)
	assert.Equal(t, []string{"x-1~1"}, b.client.ZRange(t.Context(), endedKey, 0, -1).Val())
	require.NoError(t, b.client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	until := b.client.ZScore(t.Context(), endedKey, "x-1~1").Val()
	assert.InDelta(t, now.Add(time.Minute).UnixMicro(), until, float64(5*time.Second/time.Microsecond))
	assert.Greater(t, b.lives(endedKey), 55*time.Second)
	for end := now.Add(200 * time.Millisecond); now.Before(end); {
		now = b.now()
	}
	b.rollback("y-1~1", true, false)
	b.finished("x-1~1")
	b.finished("y-1~1")
}

func TestNode_AServerThatCannotBeReached(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	n := newNode(client, "redlatch")
	defer func() { require.NoError(t, errors.Join(n.Close(), client.Close())) }()
	_, err := n.Peek(t.Context(), minute("x-1"))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = n.RaiseFence(t.Context(), minute("x-1"), 7)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorIs(t, n.Rollback(t.Context(), minute("x-1"), false, true), syscall.ECONNREFUSED)
}

// Who lost its lock on a server raises nothing there, and a raise lowers nothing. A fence that the clock has caught up with
// needs no memory.
func TestNode_Raise(t *testing.T) {
	b := newBench(t)
	ahead := func(d time.Duration) uint64 { return uint64(b.now().Add(d).UnixMicro()) }
	require.False(t, b.raise("x-1~1", ahead(time.Hour)))
	assert.Zero(t, b.client.DBSize(t.Context()).Val())

	b.holds("x-1~1")
	require.True(t, b.raise("x-1~1", ahead(0)))
	assert.Zero(t, b.client.Exists(t.Context(), endedKey).Val())
	far := ahead(3 * time.Hour)
	for _, fence := range []uint64{far - 7, far, far - 7} {
		require.True(t, b.raise("x-1~1", fence))
	}
	assert.Equal(t, far, b.ahead())
	assert.InDelta(t, 3*time.Hour, b.lives(endedKey), float64(time.Minute))
	b.release("x-1~1", 0)
	assert.Greater(t, b.holds("x-2~1"), far)
}

// An owner whose work is done holds nothing, though its MinHold has not passed: it raises nothing, and a rollback
// does not end the MinHold.
func TestNode_AnOwnerWhoseMinHoldLasts(t *testing.T) {
	b := newBench(t)
	b.holds("x-1~1")
	b.release("x-1~1", 30*time.Second)
	require.False(t, b.raise("x-1~1", 1<<52))
	assert.Zero(t, b.ahead())
	b.rollback("x-1~1", false, false)
	assert.Greater(t, b.lives(lockKey), 25*time.Second)
}
