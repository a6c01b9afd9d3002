package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file are about the scripts where holders tolerate each other.

// However many are inside, a script does the same few things for one caller.
func TestLimit_ACallOnABigLimitCostsNoMoreThanOnASmallOne(t *testing.T) {
	const small, big = 50, 500 // holds of a minute, also on a machine that is busy
	costs := map[int]map[string]map[string]int{}
	b := newRig(t)
	for _, n := range []int{small, big} {
		b.wipe()
		for i := range n {
			b.holds(fmt.Sprintf("a-%d.%d", n, i))
		}
		busy := func(owner string) func() { return func() { b.busy(owner, "") } }
		costs[n] = map[string]map[string]int{
			"a permit, NoWait": b.calls(busy(fmt.Sprintf("b-%d.1", n))),
			"a lower limit":    b.calls(busy("b-7.1")),
			"a reader, NoWait": b.calls(busy("b-0.1")),
			"exclusive":        b.calls(busy("b-1")),
			"a permit is back": b.calls(func() { require.Equal(t, "released", b.release(fmt.Sprintf("a-%d.0", n), 0)) }),
			"the next permit":  b.calls(func() { require.Equal(t, "held", b.acquire(fmt.Sprintf("b-%d.2", n), "0")[0]) }),
		}
		assert.NotContains(t, costs[n]["the next permit"], "zrank", "its owner does not queue")
		for what, calls := range costs[n] {
			for _, all := range []string{"hgetall", "hkeys", "hvals", "hscan", "zscan"} {
				assert.NotContains(t, calls, all, "%s looks through all of them", what)
			}
		}
	}
	assert.Equal(t, costs[small], costs[big])
}

// Holders whose time has ended are dropped by any caller, a few at a time.
func TestLimit_HoldersThatLapsedAreDroppedInSteps(t *testing.T) {
	const most, inside = 32, 100 // most of one call, see lock.lua
	b := newRig(t)
	for i := range inside {
		b.holds(fmt.Sprintf("a-%d.%d", inside, i))
	}
	left := func() int { return int(b.ZCount(t.Context(), holdersKey, "(0", "+inf").Val()) }
	require.Equal(t, inside, left())
	for i := range inside {
		z := redis.Z{Score: 1, Member: fmt.Sprintf("a-%d.%d", inside, i)} // its time has ended
		require.NoError(t, b.ZAdd(t.Context(), holdersKey, z).Err())
	}
	for _, want := range []int{inside - most, inside - 2*most, inside - 3*most} {
		b.busy("x-1", "") // it is not known yet that no holder is left
		require.Equal(t, want, left())
	}
	b.holds("x-1")
	require.EqualValues(t, 1, b.HLen(t.Context(), lockKey).Val(), "x-1 alone")
	require.True(t, b.gone(holdersKey))
}

// schedule plays claims that bring their place, on a server whose clock stands still.
type schedule struct {
	*rig
	server   *steppedServer
	channels string
	places   map[string]string
}

func newSchedule(t *testing.T, channels string) *schedule {
	t.Helper()
	t.Parallel()
	server := newSteppedServer(t)
	return &schedule{&rig{t, server.client}, server, channels, map[string]string{}}
}

// asks says whether owners that wait in the queue hold the lock after they asked, one after the other.
func (s *schedule) asks(want string, owners ...string) {
	s.Helper()
	for _, owner := range owners {
		require.Equal(s, want, s.ask(owner), owner)
	}
}

func (s *schedule) ask(owner string) string {
	s.Helper()
	instance, _, _ := strings.Cut(owner, "-")
	if s.places[owner] == "" {
		s.places[owner] = "0"
		s.listen(instance)
	}
	reply := s.run("acquire", allKeys, acquireArgs(owner, s.channels, s.places[owner], "", "0")...)
	if reply[0] == "busy" {
		s.places[owner] = reply[2]
	}
	return reply[0]
}

// leaves releases, or gives up.
func (s *schedule) leaves(owner string) {
	s.Helper()
	s.run("release", allKeys, releaseArgs(owner, s.channels, 0, 0)...)
}

func (s *schedule) insiders(n int64) {
	s.Helper()
	fields := s.HLen(s.Context(), lockKey).Val()
	if s.HExists(s.Context(), lockKey, "@fence").Val() {
		fields--
	}
	assert.Equal(s, n, fields)
}

// A waiting writer keeps readers out for as long as it asks, and for seconds when it hangs.
func TestLimit_AWaitingWriterKeepsReadersOut(t *testing.T) {
	s := newSchedule(t, "1c:")
	s.asks("held", "a-0.1")
	for range 30 {
		s.asks("busy", "x-1", "b-0.1")
		s.server.pass(900 * time.Millisecond)
		s.asks("held", "a-0.1")
	}
	waited := time.Duration(0)
	for s.ask("b-0.1") == "busy" {
		s.server.pass(time.Second)
		waited += time.Second
		require.LessOrEqual(t, waited, 6*time.Second)
	}
	assert.GreaterOrEqual(t, waited, 4*time.Second, "it was not even given the time to ask")
	s.asks("busy", "x-1", "c-0.1") // it is back, and waits at its place
	s.leaves("a-0.1")
	s.leaves("b-0.1")
	s.asks("held", "x-1")
}

// A claim further back asks less often, until it is notified that it is in front.
func TestLimit_AFrontThatWasFurtherBackIsNotTakenForDead(t *testing.T) {
	s := newSchedule(t, "1c:")
	s.asks("held", "a-0.1")
	s.asks("busy", "x-1", "y-1", "z-1", "b-0.1")
	for range 8 { // z is the third, and need not ask
		s.server.pass(time.Second)
		s.asks("busy", "x-1", "y-1")
	}
	s.leaves("x-1")
	s.leaves("y-1")
	s.asks("busy", "b-0.1")
	s.server.pass(900 * time.Millisecond) // z was notified, and asks a second later
	s.asks("busy", "b-0.1", "z-1")
	assert.Equal(t, []string{"z-1", "b-0.1"}, s.ZRange(t.Context(), queueKey, 0, -1).Val())
}

// One call grants a bounded number of claims. Each claim that was granted the lock lets more in.
func TestLimit_ManyReadersStartInBatches(t *testing.T) {
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprint("dead ", dead), func(t *testing.T) {
			s := newSchedule(t, "0c:")
			s.asks("held", "x-1")
			var readers []string
			for i := range 40 {
				readers = append(readers, fmt.Sprintf("r-0.%d", i+1))
			}
			s.asks("busy", readers...)
			s.leaves("x-1")
			s.insiders(16)
			assert.EqualValues(t, 24, s.queued())
			s.asks("held", readers[0]) // 16 more are let in by it
			s.insiders(32)
			if dead {
				s.leaves(readers[0])
				s.server.pass(2100 * time.Millisecond)
				s.asks("held", readers[35]) // by its own pulse
				return
			}
			s.asks("held", readers[1])
			s.insiders(40)
			s.asks("held", readers...)
		})
	}
}
