package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The tests of this file are about the scripts where holders tolerate each other.

// However many are inside, a script does the same few things for one caller.
func TestLimit_ACallOnABigLimitCostsNoMoreThanOnASmallOne(t *testing.T) {
	const small, big = 50, 2000
	costs := map[int]map[string]map[string]int{}
	b := newBench(t)
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
			"a permit is back": b.calls(func() { require.EqualValues(t, 1, b.release(fmt.Sprintf("a-%d.0", n), "0", 0)) }),
			"the next permit":  b.calls(func() { b.holds(fmt.Sprintf("b-%d.2", n)) }),
		}
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
	b := newBench(t)
	for i := range inside {
		b.holds(fmt.Sprintf("a-%d.%d", inside, i))
	}
	left := func() int { return int(b.ZCount(t.Context(), holdersKey, "(0", "+inf").Val()) }
	require.Equal(t, inside, left())
	for i := range inside {
		b.ends(fmt.Sprintf("a-%d.%d", inside, i), -time.Second)
	}
	for _, want := range []int{inside - most, inside - 2*most, inside - 3*most} {
		b.busy("x-1", "") // it is not known yet that nobody is left
		require.Equal(t, want, left())
	}
	b.holds("x-1")
	require.EqualValues(t, 1, b.HLen(t.Context(), lockKey).Val(), "x-1 alone")
	require.True(t, b.gone(holdersKey))
}

// One in front that does not fit keeps those after it out, for as long as it is alive: it asks each second. After
// five seconds of silence it is dead. A claim that came to be in front just now may have asked long ago.
func TestLimit_AfterOneThatDoesNotFit(t *testing.T) {
	b := newBench(t)
	b.listen("w", "r")
	for name, test := range map[string]struct {
		asked  time.Duration // how long ago; 0: never
		passed bool
	}{
		"asks":                 {time.Second, false},
		"was silent":           {4 * time.Second, false},
		"is silent for longer": {6 * time.Second, true},
		"was not seen":         {0, true},
	} {
		b.wipe()
		b.holds("a-0.1")
		b.busy("w-1", "0")
		b.busy("r-0.1", "0")
		if b.asked("w-1", test.asked); test.asked == 0 {
			require.NoError(t, b.HDel(t.Context(), seenKey, "w-1").Err())
		}
		reply := b.acquire("r-0.1", "0")
		assert.Equal(t, test.passed, reply[0] == int64(1), "%s: %v", name, reply)
		assert.Equal(t, !test.passed, b.HExists(t.Context(), seenKey, "w-1").Val(), name)
	}

	b.wipe()
	b.holds("a-0.1")
	for _, owner := range []string{"v-1", "r-0.1", "w-1"} { // v does not listen, and asks no more
		b.busy(owner, "0")
	}
	b.asked("v-1", time.Hour)
	b.asked("w-1", 20*time.Second)
	b.holds("a-0.1")
	assert.True(t, b.inside("r-0.1"))
	assert.Equal(t, []string{"+w-1"}, b.messages("w"))
	b.busy("s-0.1", "0")
	assert.EqualValues(t, 2, b.queued(), "w has five seconds to ask")
}

// A process that may not subscribe gets its turn as others do: it asks each second, and is not taken
// for dead because no message reaches it. A claim that stopped asking is skipped.
func TestLimit_AClaimWithoutASubscriptionGetsItsTurn(t *testing.T) {
	t.Parallel()
	const alive = 5 * time.Second
	for _, limit := range []string{"", "2."} {
		for silent, granted := range map[time.Duration]bool{0: true, alive: true, alive + time.Millisecond: false} {
			t.Run(fmt.Sprint("limit ", limit, "silent for ", silent), func(t *testing.T) {
				b, server := newSteppedBench(t)
				b.listen("next", "last")
				first, mute, next, last := "x-1", "mute-"+limit+"1", "next-"+limit+"1", "last-"+limit+"1"
				asks := func() []any { return said(b.run("acquire", allKeys, "1c:", mute, 60000, "", "0- 0")...) }
				b.holds(first)
				b.waits(next, "0", 0)
				server.pass(time.Millisecond)
				front := asks()
				require.EqualValues(t, 0, front[0])
				require.EqualValues(t, 1, front[4], "behind next")
				b.waits(last, "0", 2)
				b.release(next, "0", 0) // it gave up
				server.pass(silent)
				b.release(first, "0", 0)
				require.Equal(t, granted, b.inside(mute))
				if granted {
					require.EqualValues(t, 1, asks()[0], "it comes for it")
				} else {
					assert.True(t, b.inside(last), "the claim after it is granted the lock")
					assert.False(t, b.HExists(t.Context(), seenKey, mute).Val())
				}
			})
		}
	}
}

// schedule plays claims that bring their place.
type schedule struct {
	*bench
	server   *steppedServer
	channels string
	places   map[string]string
}

func newSchedule(t *testing.T, cluster bool) *schedule {
	t.Helper()
	b, server := newSteppedBench(t)
	s := &schedule{b, server, "1c:", map[string]string{}}
	if cluster {
		s.channels = "0c:" // which counts no receivers
	}
	return s
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
	list := said(s.run("acquire", allKeys, acquireArgs(owner, s.channels, 30000, s.places[owner], "", "0")...)...)
	switch list[0] {
	case int64(1):
		return "held"
	case int64(0):
		s.places[owner] = list[3].(string)
		return "busy"
	}
	return "over"
}

// leaves releases, or gives up.
func (s *schedule) leaves(owner string, tombstone int) any {
	s.Helper()
	return released(s.run("release", allKeys, releaseArgs(owner, s.channels, "0", tombstone, 0)...))
}

func (s *schedule) insiders(n int64) {
	s.Helper()
	fields := s.HLen(s.Context(), lockKey).Val()
	if s.HExists(s.Context(), lockKey, "@fence").Val() {
		fields--
	}
	assert.Equal(s, n, fields)
}

// A waiting writer keeps readers out for as long as it asks, and for seconds when it is dead.
func TestLimit_AWaitingWriterKeepsReadersOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deaf, cluster bool
		within        time.Duration
	}{
		"its host is gone":                             {true, false, 6 * time.Second},
		"it hangs, and its connection is open":         {false, false, 6 * time.Second},
		"on a cluster, which does not count receivers": {true, true, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchedule(t, c.cluster)
			s.asks("held", "a-0.1")
			for range 30 {
				s.asks("busy", "x-1", "b-0.1")
				s.server.pass(900 * time.Millisecond)
				s.asks("held", "a-0.1")
			}
			if c.deaf {
				require.NoError(t, s.listeners["x"].Close())
				testenv.Eventually(t, func() bool { return s.PubSubNumSub(t.Context(), "c:x").Val()["c:x"] == 0 }, "Redis counts it")
			}
			waited := time.Duration(0)
			for s.ask("b-0.1") == "busy" {
				s.server.pass(time.Second)
				waited += time.Second
				require.LessOrEqual(t, waited, c.within)
			}
			assert.GreaterOrEqual(t, waited, 4*time.Second, "it was not even given the time to ask")
			if !c.deaf {
				s.asks("busy", "x-1", "c-0.1") // it is back, and waits at its place
				s.leaves("a-0.1", 0)
				s.leaves("b-0.1", 0)
				s.asks("held", "x-1")
			}
		})
	}
}

// A claim further back asks less often, until it is notified that it is in front.
func TestLimit_AFrontThatWasFurtherBackIsNotTakenForDead(t *testing.T) {
	s := newSchedule(t, false)
	s.asks("held", "a-0.1")
	s.asks("busy", "x-1", "y-1", "z-1", "b-0.1")
	for range 8 { // z is the third, and need not ask
		s.server.pass(time.Second)
		s.asks("busy", "x-1", "y-1")
	}
	s.leaves("x-1", 0)
	s.leaves("y-1", 0)
	s.asks("busy", "b-0.1")
	s.server.pass(900 * time.Millisecond) // z was notified, and asks a second later
	s.asks("busy", "b-0.1", "z-1")
	assert.Equal(t, []string{"z-1", "b-0.1"}, s.ZRange(t.Context(), queueKey, 0, -1).Val())
}

// One call grants a bounded number of claims. Each claim that was granted the lock lets more in.
func TestLimit_ManyReadersStartInBatches(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{false, true} {
		t.Run(fmt.Sprint("dead ", dead), func(t *testing.T) {
			s := newSchedule(t, true)
			s.asks("held", "x-1")
			var readers []string
			for i := range 40 {
				readers = append(readers, fmt.Sprintf("r-0.%d", i+1))
			}
			s.asks("busy", readers...)
			s.leaves("x-1", 0)
			s.insiders(16)
			assert.EqualValues(t, 24, s.queued())
			s.asks("held", readers[0]) // 16 more are let in by it
			s.insiders(32)
			if dead {
				s.leaves(readers[0], 0)
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
