package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

func micros(t time.Time) uint64 { return uint64(t.UnixMicro()) } //nolint:gosec // after 1970

// stepping is a walk through steps of the clock, losses of data and contention.
type stepping struct {
	*testing.T
	server *steppedServer
	store  guardstore.Store
	rnd    *rand.Rand

	owners int
	holds  uint64
	high   uint64    // the highest fence of any hold, since Redis forgot the last one
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
	text, _, _ := strings.Cut(s.server.client.Get(s.Context(), lastKey).Val(), " ")
	fence, err := strconv.ParseUint(text, 10, 64)
	require.NoError(s, err)
	ahead := max(time.Duration(int64(fence)-s.server.clock.UnixMicro())*time.Microsecond, 0) //nolint:gosec // of our time
	life := s.server.client.PTTL(s.Context(), lastKey).Val()
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
	if s.server.client.Exists(s.Context(), lastKey).Val() == 0 {
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
// server ever gave.
func TestClock_FencesStayNearTheClockWhateverItDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			server := newSteppedServer(t)
			s := &stepping{
				T: t, server: server, rnd: rand.New(rand.NewPCG(seed, 19)), //nolint:gosec // a schedule
				store: testenv.RedisStore(t, server.client, "redlatch"),
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

// The clock is set back by an hour under a hold, which is then released. A claim that comes before the
// clock has caught up gets a higher fence.
func TestClock_AClockThatIsSetBackUnderAHold(t *testing.T) {
	alone := func(s guardstore.Store, r guardstore.Release) error { _, err := s.Release(t.Context(), r); return err }
	for name, release := range map[string]func(s guardstore.Store, r guardstore.Release) error{
		"alone":            alone,
		"with a tombstone": func(s guardstore.Store, r guardstore.Release) error { r.Tombstone = true; return alone(s, r) },
		"in company": func(s guardstore.Store, r guardstore.Release) error {
			_, _, errs := redisstore.Together(t.Context(), s, nil, []guardstore.Release{r, {Key: "o", Owner: "o-1", TTL: time.Second, Fence: 1}})
			return errs[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newSteppedServer(t)
			store := testenv.RedisStore(t, server.client, "redlatch")
			c := guardstore.Claim{Key: "k", Owner: "x-1", TTL: 10 * time.Second}
			held, err := store.Acquire(t.Context(), c)
			require.NoError(t, err)
			server.pass(time.Second)
			server.step(-time.Hour)
			handedOver := held.Fence + 1000
			require.NoError(t, release(store, guardstore.Release{Key: "k", Owner: "x-1", Fence: handedOver, TTL: c.TTL}))
			server.pass(58 * time.Minute)
			c.Owner = "x-2"
			next, err := store.Acquire(t.Context(), c)
			require.NoError(t, err)
			assert.Equal(t, handedOver+1, next.Fence)
			assert.True(t, next.FenceAhead)
			server.pass(10 * time.Minute) // it crashed; the clock caught up a while ago
			assert.Zero(t, server.client.Exists(t.Context(), lastKey).Val(), "remembered for ever")
		})
	}
}
