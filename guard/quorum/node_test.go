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

// oneServer is a node, and what there is to see on its server.
type oneServer struct {
	node
	*testing.T
	client    *redis.Client
	listeners map[string]*redis.PubSub // by instance
}

// newServer starts a server for a parallel test.
func newServer(t *testing.T) *oneServer {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	s := &oneServer{newNode(client, "redlatch"), t, client, map[string]*redis.PubSub{}}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// minute is a claim of an owner for a minute.
func minute(owner string) guardstore.Claim {
	return guardstore.Claim{Key: "k", Owner: owner, TTL: time.Minute, Metadata: "who"}
}

// acquires has an owner ask for the lock, and returns the fence.
func (s *oneServer) acquires(owner string, want guardstore.ClaimStatus) uint64 {
	s.Helper()
	r, err := s.Acquire(s.Context(), minute(owner))
	require.NoError(s, err)
	require.Equal(s, want, r.Status, owner)
	return r.Fence
}

// holds has an owner take the lock, and returns its fence.
func (s *oneServer) holds(owner string) uint64 {
	s.Helper()
	return s.acquires(owner, guardstore.ClaimHeld)
}

func (s *oneServer) peek(owner string, place uint64) guardstore.ClaimReply {
	s.Helper()
	c := minute(owner)
	c.Ticket = place
	r, err := s.Peek(s.Context(), c)
	require.NoError(s, err)
	return r
}

func (s *oneServer) release(owner string, minHold time.Duration) guardstore.ReleaseReply {
	s.Helper()
	r, err := s.Release(s.Context(), guardstore.Release{Key: "k", Owner: owner, TTL: time.Minute, MinHold: minHold})
	require.NoError(s, err)
	return r
}

func (s *oneServer) rollback(owner string, tombstone, notify bool) {
	s.Helper()
	require.NoError(s, s.Rollback(s.Context(), minute(owner), tombstone, notify))
}

// raise has an owner raise the fence, and checks whether it holds the lock.
func (s *oneServer) raise(owner string, fence uint64, want bool) {
	s.Helper()
	held, err := s.RaiseFence(s.Context(), minute(owner), fence)
	require.NoError(s, err)
	require.Equal(s, want, held)
}

// messages are those to an instance since it was asked last. It listens from the first time on.
func (s *oneServer) messages(instance string) (payloads []string) {
	s.Helper()
	const mark, channel = "end", "redlatch:grant:"
	if s.listeners[instance] == nil {
		s.listeners[instance] = s.client.Subscribe(s.Context(), channel+instance)
		s.Cleanup(func() { _ = s.listeners[instance].Close() })
		_, err := s.listeners[instance].Receive(s.Context())
		require.NoError(s, err)
	}
	require.NoError(s, s.client.Publish(s.Context(), channel+instance, mark).Err())
	for {
		m, err := s.listeners[instance].ReceiveMessage(s.Context())
		require.NoError(s, err)
		if m.Payload == mark {
			return payloads
		}
		payloads = append(payloads, m.Payload)
	}
}

func (s *oneServer) lives(key string) time.Duration { return s.client.PTTL(s.Context(), key).Val() }

// in is the time of the server after a while, in µs.
func (s *oneServer) in(d time.Duration) uint64 {
	s.Helper()
	now, err := s.client.Time(s.Context()).Result()
	require.NoError(s, err)
	return uint64(now.Add(d).UnixMicro())
}

// A place is the time, is kept whatever the claim brings, and is after all others, also if the clock was set back.
func TestNode_PlacesInTheWakeList(t *testing.T) {
	s := newServer(t)
	place := func(ticket uint64, ahead int) guardstore.ClaimReply {
		return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: ticket, Ahead: ahead}
	}
	begun := s.in(0)
	first := s.peek("a-1", 0)
	assert.GreaterOrEqual(t, first.Ticket, begun)
	require.Equal(t, place(first.Ticket, 0), first)
	later := s.in(0)
	second := s.peek("b-1", 0)
	assert.GreaterOrEqual(t, second.Ticket, later)
	require.Equal(t, 1, second.Ahead)
	require.Equal(t, first, s.peek("a-1", 0), "its reply was lost")
	require.Equal(t, first, s.peek("a-1", 1), "whatever it brings")
	assert.Greater(t, s.lives(wakeKey), 55*time.Second)
	require.NoError(t, s.client.ZAdd(t.Context(), wakeKey, redis.Z{Score: 1 << 52, Member: "far-1"}).Err())
	require.Equal(t, place(1<<52+1, 3), s.peek("c-1", 0))
	require.Equal(t, place(1, 0), s.peek("e-1", 1), "the place that it brings")
	s.rollback("x-1", true, false)
	assert.Equal(t, finished, s.peek("x-1", 0))
	require.ErrorIs(t, s.client.ZScore(t.Context(), wakeKey, "x-1").Err(), redis.Nil)
}

// A peek shows how the lock stands, whatever is under its key.
func TestNode_PeekShowsTheLock(t *testing.T) {
	s := newServer(t)
	sees := func(remaining time.Duration, holder string, done bool) {
		t.Helper()
		r := s.peek("a-1", 0)
		assert.InDelta(t, remaining, r.Remaining, float64(5*time.Second))
		assert.Equal(t, holder, r.Holder)
		assert.Equal(t, done, r.Done)
	}
	require.NoError(t, s.client.Set(t.Context(), lockKey, "text", 0).Err())
	assert.Greater(t, s.peek("a-1", 0).Remaining, 24*time.Hour, "it is taken, for ever")
	require.NoError(t, s.client.Set(t.Context(), lockKey, "text", time.Minute).Err())
	sees(time.Minute, "", false)
	require.NoError(t, s.client.Del(t.Context(), lockKey).Err())
	assert.Zero(t, s.peek("a-1", 0).Remaining)
	s.holds("x-1~1")
	sees(time.Minute, "who", false)
	s.release("x-1~1", 30*time.Second)
	sees(30*time.Second, "who", true)
}

// The end of a hold notifies the first claim in the list, and the second that it is in front. A
// claim that never held, and one whose MinHold has not passed, only leaves the list.
func TestNode_ReleaseNotifiesTheList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list     string // in order
		end      func(s *oneServer)
		notifies bool
		left     string
	}{
		"a hold": {"x-1 a-1 b-1 c-1", func(s *oneServer) { s.release("x-1~1", 0) }, true, "b-1 c-1"},
		"a hold that was revoked": {"a-1 b-1", func(s *oneServer) {
			line := strings.Fields(s.client.HGet(s.Context(), lockKey, "x-1~1").Val())
			line[3] = "r"
			require.NoError(s, s.client.HSet(s.Context(), lockKey, "x-1~1", strings.Join(line, " ")).Err())
			assert.Equal(s, guardstore.ReleaseRevoked, s.release("x-1~1", 0).Status)
		}, true, "b-1"},
		"a round that failed":              {"a-1 b-1", func(s *oneServer) { s.rollback("x-1~1", false, true) }, true, "b-1"},
		"a round that notifies no claim":   {"a-1 b-1", func(s *oneServer) { s.rollback("x-1~1", false, false) }, false, "a-1 b-1"},
		"a claim that does not listen":     {"dead-1 a-1 gone-1 b-1", func(s *oneServer) { s.release("x-1~1", 0) }, true, "b-1"},
		"a claim that never held":          {"a-1 b-1 c-1", func(s *oneServer) { s.release("a-1", 0) }, false, "b-1 c-1"},
		"a hold whose MinHold is not over": {"a-1 b-1 x-1", func(s *oneServer) { s.release("x-1~1", time.Minute) }, false, "a-1 b-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			for _, instance := range []string{"a", "b", "c"} {
				require.Empty(t, s.messages(instance))
			}
			s.holds("x-1~1")
			for owner := range strings.FieldsSeq(c.list) {
				s.peek(owner, 0)
			}
			c.end(s)
			a, second := []string(nil), []string(nil)
			if c.notifies {
				a, second = []string{"a-1"}, []string{"+b-1"}
			}
			assert.Equal(t, a, s.messages("a"))
			assert.Equal(t, second, s.messages("b"))
			assert.Empty(t, s.messages("c"))
			assert.Equal(t, strings.Fields(c.left), s.client.ZRange(t.Context(), wakeKey, 0, -1).Val())
		})
	}
}

// The end of a hold passes over a thousand claims that do not listen, and no more.
func TestNode_ReleaseIsBounded(t *testing.T) {
	s := newServer(t)
	s.holds("x-1~1")
	dead := make([]redis.Z, 1001)
	for i := range dead {
		dead[i] = redis.Z{Score: float64(i), Member: fmt.Sprint("dead-", i)}
	}
	require.NoError(t, s.client.ZAdd(t.Context(), wakeKey, dead...).Err())
	s.release("x-1~1", 0)
	assert.Equal(t, []string{"dead-1000"}, s.client.ZRange(t.Context(), wakeKey, 0, -1).Val())
}

// A rollback takes back what its owner got, and nothing of other owners. Without need it leaves nothing.
func TestNode_Rollback(t *testing.T) {
	s := newServer(t)
	s.rollback("z-1~1", false, true)
	assert.Zero(t, s.client.DBSize(t.Context()).Val())
	s.holds("x-1~1")
	s.rollback("y-1~1", true, false)
	require.True(t, s.client.HExists(t.Context(), lockKey, "x-1~1").Val())
	s.rollback("x-1~1", false, false)
	require.Zero(t, s.client.Exists(t.Context(), lockKey).Val())
	s.holds("x-1~1") // nothing of it was on its way
	s.rollback("x-1~1", false, false)
	s.acquires("y-1~1", guardstore.ClaimFinished)
	s.holds("y-1~2") // another round has not ended
	s.release("y-1~2", 30*time.Second)
	s.rollback("y-1~2", false, false)
	assert.Greater(t, s.lives(lockKey), 25*time.Second, "its MinHold keeps the lock")
	s.raise("y-1~2", 1<<52, false)
}

// A list of another type prevents no release, a lock of another type keeps no tombstone from being written.
func TestNode_KeysOfAnotherType(t *testing.T) {
	s := newServer(t)
	s.holds("x-1~1")
	require.NoError(t, s.client.Set(t.Context(), wakeKey, "text", 0).Err())
	assert.Equal(t, guardstore.ReleaseDone, s.release("x-1~1", 0).Status)

	require.NoError(t, s.client.Set(t.Context(), lockKey, "text", 0).Err())
	s.rollback("y-1~1", true, false)
	assert.Equal(t, "text", s.client.Get(t.Context(), lockKey).Val())
	require.NoError(t, s.client.Del(t.Context(), lockKey).Err())
	s.acquires("y-1~1", guardstore.ClaimFinished)
}

// A script that is refused a command leaves no key without an end, and does not say that it released.
func TestNode_AUserWithoutARight(t *testing.T) {
	s := newServer(t)
	s.holds("x-1~1")
	require.NoError(t, s.client.Do(t.Context(), "acl", "setuser", "u", "on", ">secret", "~*", "&*", "+@all", "-pexpire", "-hget").Err())
	options := *s.client.Options()
	options.Username, options.Password = "u", "secret"
	client := redis.NewClient(&options)
	n := newNode(client, "redlatch")
	defer func() { require.NoError(t, errors.Join(n.Close(), client.Close())) }()
	_, err := n.Peek(t.Context(), minute("a-1"))
	require.Error(t, err)
	assert.Zero(t, s.client.Exists(t.Context(), wakeKey).Val())
	require.Error(t, n.Rollback(t.Context(), minute("x-1~1"), false, false))
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

// Only the holder raises the fence, and it never falls. A fence that the clock has caught up with needs no memory.
func TestNode_Raise(t *testing.T) {
	s := newServer(t)
	s.raise("x-1~1", s.in(time.Hour), false)
	assert.Zero(t, s.client.DBSize(t.Context()).Val())

	s.holds("x-1~1")
	s.raise("x-1~1", s.in(0), true)
	assert.Zero(t, s.client.Exists(t.Context(), endedKey).Val())
	far := s.in(3 * time.Hour)
	for _, fence := range []uint64{far - 7, far, far - 7} {
		s.raise("x-1~1", fence, true)
	}
	assert.InDelta(t, 3*time.Hour, s.lives(endedKey), float64(time.Minute))
	s.release("x-1~1", 0)
	assert.Equal(t, far+1, s.holds("x-2~1"))
}
