package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

func micros(t time.Time) uint64 { return uint64(t.UnixMicro()) }

// process is one of several that share a server whose clock is set.
type process struct {
	*testing.T
	server *steppedServer
	store  guardstore.Store
	name   string
	owners int
}

// newProcess makes a Store whose clock goes as time passes, and is not set back.
func newProcess(t *testing.T, server *steppedServer, name string) *process {
	t.Helper()
	store := testenv.RedisStore(t, server.client, "guard")
	redisstore.SetClock(store, func() clock.Instant { return clock.Instant(1 << 60).Add(server.passed) })
	return &process{T: t, server: server, store: store, name: name}
}

// trip is a round trip's time.
const trip = 100 * time.Microsecond

func (p *process) takes(key string) (guardstore.Claim, guardstore.ClaimReply) {
	p.Helper()
	p.owners++
	p.server.pass(trip)
	c := guardstore.Claim{Key: key, Owner: fmt.Sprintf("%s-%d", p.name, p.owners), TTL: 10 * time.Second}
	r, err := p.store.Acquire(p.Context(), c)
	require.NoError(p, err)
	return c, r
}

func (p *process) holds(key string) (guardstore.Claim, guardstore.ClaimReply) {
	p.Helper()
	c, r := p.takes(key)
	require.Equal(p, guardstore.ClaimHeld, r.Status)
	return c, r
}

func (p *process) renews(c guardstore.Claim, r guardstore.ClaimReply) {
	p.Helper()
	p.server.pass(trip)
	grant := guardstore.Grant{Key: c.Key, Owner: c.Owner, Fence: r.Fence, TTL: c.TTL, Depth: 1}
	require.Equal(p, guardstore.RenewReply{Held: true}, p.store.Renew(p.Context(), []guardstore.Grant{grant})[0])
}

func (p *process) releases(c guardstore.Claim, fence uint64) {
	p.Helper()
	p.server.pass(trip)
	_, err := p.store.Release(p.Context(), guardstore.Release{Key: c.Key, Owner: c.Owner, Fence: fence, TTL: c.TTL})
	require.NoError(p, err)
}

// Whatever the clock does, and whatever Redis loses: fences grow for processes that spoke with Redis since the clock was set
// forward, and are ahead of what the clock would have shown by no more than one for each hold, a round trip, and a tenth of the
// time for which a process had no reply.
func TestClock_FencesGrowAndStayNearTheClockWhateverItDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			server := newSteppedServer(t)
			rnd := rand.New(rand.NewPCG(seed, 19))
			all := []*process{newProcess(t, server, "a"), newProcess(t, server, "b"), newProcess(t, server, "c")}
			heard, silence := map[*process]time.Duration{}, time.Duration(0)
			hears := func(p *process) {
				if last, before := heard[p]; before {
					silence = max(silence, server.passed-last)
				}
				heard[p] = server.passed
			}
			hello := func() {
				for _, p := range all {
					c, r := p.holds("hello " + p.name)
					hears(p)
					p.releases(c, r.Fence)
				}
			}
			hello()
			high, holds := uint64(0), uint64(0)
			var holder *process
			var claim guardstore.Claim
			var reply guardstore.ClaimReply
			var since time.Duration
			for range 800 {
				switch n := rnd.IntN(20); {
				case n < 8:
					p := all[rnd.IntN(len(all))]
					c, r := p.takes("k")
					if r.Status != guardstore.ClaimHeld {
						continue
					}
					hears(p)
					holder, claim, reply, since = p, c, r, server.passed
					holds++
					require.Greater(t, r.Fence, high)
					require.LessOrEqual(t, r.Fence, micros(server.top.Add(trip+silence/10))+holds+1, "it ran away")
					require.Equal(t, r.Fence > micros(server.clock), r.FenceAhead)
					high = r.Fence
				case n < 14 && holder != nil:
					fence := reply.Fence
					if passed := server.passed - since; !reply.FenceAhead && passed > 0 { // it was handed over
						fence += uint64(rnd.Int64N(passed.Microseconds() + 1))
					}
					if server.client.HExists(t.Context(), lockKey, claim.Owner).Val() {
						high = max(high, fence)
					}
					holder.releases(claim, fence)
					holder = nil
				case n < 18:
					server.pass(time.Duration(rnd.Int64N(int64(20 * time.Second))))
				case n == 18:
					by := time.Duration(rnd.Int64N(int64(time.Hour))) - 40*time.Minute
					if server.step(by); by > 0 {
						hello()
					}
				case n == 19 && !server.clock.Before(server.top): // else only the process that has such a fence knows it
					server.FlushAll()
				}
				require.LessOrEqual(t, server.client.PTTL(t.Context(), endedKey).Val(), server.behind+2*time.Minute, "remembered for too long")
			}
			require.Greater(t, holds, uint64(100))
		})
	}
}

// newcomer is a process that did not know the clock before it was set back, on a key that another process
// held meanwhile.
func newcomer(t *testing.T, server *steppedServer, above uint64) {
	t.Helper()
	c, r := newProcess(t, server, "new").holds("k")
	assert.Greater(t, r.Fence, above)
	assert.True(t, r.FenceAhead)
	_, err := testenv.RedisStore(t, server.client, "guard").Release(t.Context(), guardstore.Release{Key: "k", Owner: c.Owner, TTL: c.TTL})
	require.NoError(t, err)
}

// The clock is set back under a hold. Its process learns of that by a renewal, or by another key, or not for certain, as a
// command went unanswered. Then its release leaves its fence, and a process that is new knows it.
func TestClock_AReleaseAfterAStepLeavesItsFence(t *testing.T) {
	t.Parallel()
	for name, learns := range map[string]func(p *process, c guardstore.Claim, r guardstore.ClaimReply){
		"by a renewal":   func(p *process, c guardstore.Claim, r guardstore.ClaimReply) { p.renews(c, r) },
		"by another key": func(p *process, _ guardstore.Claim, _ guardstore.ClaimReply) { p.holds("other") },
		"by an outage": func(p *process, c guardstore.Claim, _ guardstore.ClaimReply) {
			p.server.SetError("LOADING Redis is loading")
			_, err := p.store.Acquire(p.Context(), guardstore.Claim{Key: "other", Owner: "o-1", TTL: c.TTL})
			require.Error(p, err)
			p.server.SetError("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newSteppedServer(t)
			a := newProcess(t, server, "a")
			c, r := a.holds("k")
			server.pass(time.Second)
			server.step(-time.Hour)
			learns(a, c, r)
			handedOver := r.Fence + 1000
			a.releases(c, handedOver)
			newcomer(t, server, handedOver)
			server.pass(2 * time.Hour)
			assert.Zero(t, server.client.Exists(t.Context(), endedKey).Val(), "remembered for ever")
		})
	}
}

// A process takes a key that it did not use before, after a step back: its fence is above all that the
// server ever gave, and is said to be ahead until the clock has caught up.
func TestClock_TheHighWaterIsOfAllKeys(t *testing.T) {
	t.Parallel()
	server := newSteppedServer(t)
	a, b := newProcess(t, server, "a"), newProcess(t, server, "b")
	a.holds("other")
	server.pass(time.Minute)
	c, before := b.holds("k") // its process is gone then
	server.FlushAll()
	server.step(-time.Hour)
	for range 3 {
		k, r := a.holds("k")
		require.Greater(t, r.Fence, before.Fence)
		require.True(t, r.FenceAhead)
		a.releases(k, r.Fence)
		server.pass(19 * time.Minute)
	}
	newcomer(t, server, before.Fence)
	server.pass(5 * time.Minute) // it has caught up, and drift is over
	k, r := a.holds("k")
	assert.False(t, r.FenceAhead)
	assert.Equal(t, micros(server.clock), r.Fence)
	a.releases(k, r.Fence)
	assert.Zero(t, server.client.Exists(t.Context(), lockKey, endedKey).Val())
	b.releases(c, before.Fence)
}
