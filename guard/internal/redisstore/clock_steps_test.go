package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// steppedServer is a Redis whose clock, and whose keys' age, are the test's.
type steppedServer struct {
	*miniredis.Miniredis
	client *redis.Client
	clock  time.Time
	top    time.Time // the highest that the clock was
}

func newSteppedServer(t *testing.T) *steppedServer {
	t.Helper()
	m := miniredis.RunT(t)
	s := &steppedServer{Miniredis: m, client: redis.NewClient(&redis.Options{Addr: m.Addr()})}
	t.Cleanup(func() { assert.NoError(t, s.client.Close()) })
	s.clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.step(0)
	return s
}

// step sets the clock forward or back.
func (s *steppedServer) step(by time.Duration) {
	s.clock = s.clock.Add(by)
	if s.clock.After(s.top) {
		s.top = s.clock
	}
	s.SetTime(s.clock)
}

// pass lets time go by.
func (s *steppedServer) pass(d time.Duration) {
	s.FastForward(d)
	s.step(d)
}

func micros(t time.Time) uint64 { return uint64(t.UnixMicro()) } //nolint:gosec // after 1970

// stepping is a walk through steps of the clock, losses of data and contention.
type stepping struct {
	*testing.T
	server *steppedServer
	store  guardstore.Store
	rnd    *rand.Rand

	owners int
	holds  uint64
	high   uint64    // the highest fence that anybody had, since Redis forgot the last one
	until  time.Time // by the server's clock, how long the last fence is to be known at most

	holder *guardstore.Claim
	reply  guardstore.ClaimReply
	since  time.Time
}

func (s *stepping) newOwner() string {
	s.owners++
	return fmt.Sprintf("x-%d", s.owners)
}

// took checks a fence.
func (s *stepping) took(c guardstore.Claim, r guardstore.ClaimReply) {
	s.Helper()
	s.holds++
	s.holder, s.reply, s.since = &c, r, s.server.clock
	require.LessOrEqual(s, r.Fence, micros(s.server.top)+s.holds, "it ran away")
	require.Equal(s, r.Fence > micros(s.server.clock), r.FenceAhead, "what the reply says")
	require.Greater(s, r.Fence, s.high)
	s.high = r.Fence
	s.lives(c.TTL)
}

// lives checks for how long the last fence is remembered: until the clock has caught up, and
// twice the ttl or a minute more; and that this does not grow with each hold.
func (s *stepping) lives(ttl time.Duration) {
	s.Helper()
	last := testenv.LockOf("k") + ":last"
	text, _, _ := strings.Cut(s.server.client.Get(s.Context(), last).Val(), " ")
	fence, err := strconv.ParseUint(text, 10, 64)
	require.NoError(s, err)
	ahead := max(time.Duration(int64(fence)-s.server.clock.UnixMicro())*time.Microsecond, 0) //nolint:gosec // of our time
	life := s.server.client.PTTL(s.Context(), last).Val()
	require.GreaterOrEqual(s, life, ahead+max(2*ttl, time.Minute), "forgotten too early")
	if until := s.server.clock.Add(ahead + max(2*ttl, time.Minute)); until.After(s.until) {
		s.until = until
	}
	require.LessOrEqual(s, life, s.until.Sub(s.server.clock)+time.Second, "remembered for too long")
}

func (s *stepping) acquire() {
	c := guardstore.Claim{Key: "k", Owner: s.newOwner(), TTL: []time.Duration{time.Second, 10 * time.Second, time.Minute}[s.rnd.IntN(3)]}
	if s.holder != nil && s.rnd.IntN(3) == 0 {
		c.FenceAbove = s.reply.Fence
	}
	if s.server.client.Exists(s.Context(), testenv.LockOf("k")+":last").Val() == 0 {
		s.high = c.FenceAbove // lost, or remembered for long enough
	}
	var replies []guardstore.ClaimReply
	var errs []error
	if c.FenceAbove == 0 && s.rnd.IntN(2) == 0 {
		other := guardstore.Claim{Key: s.newOwner(), Owner: "o-1", TTL: time.Second}
		replies, _, errs = redisstore.Together(s.Context(), s.store, []guardstore.Claim{c, other}, nil)
	} else {
		r, err := s.store.Acquire(s.Context(), c)
		replies, errs = []guardstore.ClaimReply{r}, []error{err}
	}
	require.NoError(s, errs[0])
	if replies[0].Status == guardstore.ClaimHeld {
		s.took(c, replies[0])
	}
}

func (s *stepping) release() {
	if s.holder == nil {
		return
	}
	c := *s.holder
	rel := guardstore.Release{Key: c.Key, Owner: c.Owner, Fence: s.reply.Fence, TTL: c.TTL, Tombstone: s.rnd.IntN(4) == 0}
	if passed := s.server.clock.Sub(s.since); !s.reply.FenceAhead && passed > 0 { // it was handed over
		rel.Fence += uint64(s.rnd.Int64N(passed.Microseconds() + 1)) //nolint:gosec // positive
	}
	var reply guardstore.ReleaseReply
	var err error
	if !rel.Tombstone {
		released := []guardstore.Release{rel, {Key: "other", Owner: "o-1", TTL: time.Second, Fence: 1}}
		_, replies, errs := redisstore.Together(s.Context(), s.store, nil, released)
		reply, err = replies[0], errs[0]
	} else {
		reply, err = s.store.Release(s.Context(), rel)
	}
	require.NoError(s, err)
	s.holder = nil
	if reply.Status != guardstore.ReleaseDone {
		return // it lapsed, or was lost
	}
	s.high = max(s.high, rel.Fence)
	s.lives(c.TTL)
}

// No sequence of steps, losses and contention has fences run away from the clock, or fall
// without need: one more for each hold is all that they are ahead of the highest time that the
// server ever told.
func TestClockSteps_FencesStayNearTheClockWhateverItDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			server := newSteppedServer(t)
			s := &stepping{
				T: t, server: server, rnd: rand.New(rand.NewPCG(seed, 19)), //nolint:gosec // a schedule
				store: testenv.RedisStore(t, server.client, "guard"),
			}
			for range 600 {
				switch n := s.rnd.IntN(20); {
				case n < 8:
					s.acquire()
				case n < 15:
					s.release()
				case n < 18:
					s.server.pass(time.Duration(s.rnd.Int64N(int64(20 * time.Second))))
				case n == 18 && s.holder == nil: // under a hold, it is the test below
					s.server.step(time.Duration(s.rnd.Int64N(int64(time.Hour))) - 40*time.Minute)
				case n == 19 && s.rnd.IntN(4) == 0:
					s.server.FlushAll()
					s.until = time.Time{}
				}
			}
			require.Greater(t, s.holds, uint64(100))
		})
	}
}

// The clock is set back by an hour under a hold, which is then released in good order.
// Whoever comes before the clock has caught up gets a higher fence.
func TestClockSteps_AClockThatIsSetBackUnderAHold(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(t *testing.T, s guardstore.Store, r guardstore.Release){
		"alone": func(t *testing.T, s guardstore.Store, r guardstore.Release) {
			_, err := s.Release(t.Context(), r)
			require.NoError(t, err)
		},
		"with a tombstone": func(t *testing.T, s guardstore.Store, r guardstore.Release) {
			r.Tombstone = true
			_, err := s.Release(t.Context(), r)
			require.NoError(t, err)
		},
		"in company": func(t *testing.T, s guardstore.Store, r guardstore.Release) {
			_, _, errs := redisstore.Together(t.Context(), s, nil, []guardstore.Release{r, {Key: "o", Owner: "o-1", TTL: time.Second, Fence: 1}})
			require.NoError(t, errs[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newSteppedServer(t)
			store := testenv.RedisStore(t, server.client, "guard")
			c := guardstore.Claim{Key: "k", Owner: "x-1", TTL: 10 * time.Second}
			held, err := store.Acquire(t.Context(), c)
			require.NoError(t, err)
			server.pass(time.Second)
			server.step(-time.Hour)
			handedOver := held.Fence + 1000
			release(t, store, guardstore.Release{Key: "k", Owner: "x-1", Fence: handedOver, TTL: c.TTL})
			server.pass(58 * time.Minute)
			c.Owner = "x-2"
			next, err := store.Acquire(t.Context(), c)
			require.NoError(t, err)
			assert.Equal(t, handedOver+1, next.Fence)
			assert.True(t, next.FenceAhead)
			server.pass(10 * time.Minute) // it crashed; the clock has caught up, and told so for a while
			assert.Zero(t, server.client.Exists(t.Context(), testenv.LockOf("k")+":last").Val(), "remembered for ever")
		})
	}
}

// What has lived longer than a hold needs it does not live shorter after it.
func TestClockSteps_ALastFenceIsNotForgottenEarlier(t *testing.T) {
	t.Parallel()
	server := newSteppedServer(t)
	store := testenv.RedisStore(t, server.client, "guard")
	for _, ttl := range []time.Duration{time.Hour, time.Second} {
		owner := "x-" + ttl.String()
		held, err := store.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: owner, TTL: ttl})
		require.NoError(t, err)
		require.False(t, held.FenceAhead)
		assert.Equal(t, 2*time.Hour, server.client.PTTL(t.Context(), testenv.LockOf("k")+":last").Val())
		_, err = store.Release(t.Context(), guardstore.Release{Key: "k", Owner: owner, Fence: held.Fence, TTL: ttl})
		require.NoError(t, err)
		assert.Equal(t, 2*time.Hour, server.client.PTTL(t.Context(), testenv.LockOf("k")+":last").Val())
		server.step(time.Microsecond)
	}
}

// One server's clock is far from those of the others, and owners contend. What one learns
// of the other's fences does not make them run away.
func TestClockSteps_FencesOfAQuorumStayNearTheClock(t *testing.T) {
	t.Parallel()
	var servers [3]*steppedServer
	var clients []redis.UniversalClient
	for i := range servers {
		servers[i] = newSteppedServer(t)
		clients = append(clients, servers[i].client)
	}
	servers[0].step(-2 * time.Second)
	store := testenv.QuorumStore(t, clients)
	var mu sync.Mutex
	tries, high := uint64(0), uint64(0) // each makes a few rounds, and each of these may hold a server
	round := func(owner string) {
		c := guardstore.Claim{Key: "k", Owner: owner, TTL: time.Second}
		mu.Lock()
		tries++
		mu.Unlock()
		r, err := store.Acquire(t.Context(), c)
		release := guardstore.Release{Key: "k", Owner: owner, TTL: c.TTL, Tombstone: true}
		if err != nil || r.Status != guardstore.ClaimHeld {
			_, _ = store.Release(t.Context(), release)
			return
		}
		mu.Lock()
		assert.LessOrEqual(t, r.Fence, micros(servers[1].top)+4*tries)
		assert.Greater(t, r.Fence, high)
		high = r.Fence
		mu.Unlock()
		release.Owner, release.Fence = r.Owner, r.Fence
		_, _ = store.Release(t.Context(), release)
	}
	for n := range 60 {
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { round(fmt.Sprintf("x%d-%d", i, n)) })
		}
		all.Wait()
	}
	require.Positive(t, high)
	for _, s := range servers {
		text, _, _ := strings.Cut(s.client.Get(t.Context(), testenv.LockOf("k")+":last").Val(), " ")
		fence, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		assert.LessOrEqual(t, fence, micros(servers[1].top)+4*tries)
		assert.LessOrEqual(t, s.client.PTTL(t.Context(), testenv.LockOf("k")+":last").Val(), time.Minute+3*time.Second)
	}
}

// Three Guards contend on a server whose clock was set back: each hold is one fence more.
func TestClockSteps_FencesStayNearTheClockUnderContention(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	begun := uint64(time.Now().Add(time.Hour).UnixMicro()) //nolint:gosec // after 1970
	require.NoError(t, s.Admin.Set(t.Context(), testenv.LockOf("k")+":last", fmt.Sprint(begun, " "), 0).Err())
	const each, guards = 20, 3
	var all sync.WaitGroup
	for range guards {
		g := s.Guard()
		for range 2 {
			all.Go(func() {
				for range each {
					s.Visit(g, "k")
				}
			})
		}
	}
	all.Wait()
	last, _, _ := strings.Cut(s.Admin.Get(t.Context(), testenv.LockOf("k")+":last").Val(), " ")
	fence, err := strconv.ParseUint(last, 10, 64)
	require.NoError(t, err)
	// A grant that its owner did not come for in time is one, too.
	assert.GreaterOrEqual(t, fence, begun+2*each*guards)
	assert.LessOrEqual(t, fence, begun+4*each*guards)
}

// A number that no client takes for a fence is none: the clock is enough.
func TestClockSteps_ALastFenceThatIsTooLarge(t *testing.T) {
	t.Parallel()
	onCrowdedStores(t, func(s crowdedStore) {
		for i, last := range []string{"9007199254740992 ", "9007199254740991 x", "18446744073709551616 ", "0x7 "} {
			key := "k" + strconv.Itoa(i)
			require.NoError(s, s.direct.Set(s.Context(), testenv.LockOf(key)+":last", last, 0).Err())
			r, err := s.Acquire(s.Context(), claimOf(key, "x-1"))
			require.NoError(s, err, last)
			require.Equal(s, guardstore.ClaimHeld, r.Status)
			require.Less(s, r.Fence, uint64(1)<<52)
			require.False(s, r.FenceAhead)
		}
	})
}
