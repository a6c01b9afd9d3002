package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	mostAtOnce   = 4                      // faults that last
	longestPause = 400 * time.Millisecond // the longest time between two faults
)

// fault is a kind of failure. inject causes one, or returns nil if the target that it drew is
// faulty already.
type fault struct {
	kind   string
	odds   int
	inject func(s *injector) *injection
}

// injection is a fault that was started. Without heal it ends at once.
type injection struct {
	target string
	heal   func()
	ended  func() bool // if it is set, heal has to wait until it is true

	span
	kind string
	due  time.Time
}

// injector draws faults from a seed, one after another.
type injector struct {
	tb      testing.TB
	seed    uint64
	rng     *rand.Rand // of the fault that is being drawn
	net     *network
	workers *workers

	faulty    map[string]time.Time // by target: when it counts as well again
	clockBase []time.Duration      // by how much the servers' clocks are ahead, about
	lasting   []*injection
	log       []*injection
	losses    []loss // when data may have been lost
}

// run injects faults for a time, and ends them all. What it draws depends on the
// seed alone: a fault that cannot happen now makes no difference to those after it.
func (s *injector) run(d time.Duration) {
	end := time.Now().Add(d)
	all := append(slices.Clip(faults), s.net.faults...)
	for n := uint64(0); time.Now().Before(end); n++ {
		s.rng = rand.New(rand.NewPCG(s.seed, n))
		pause, length := upTo(s.rng, longestPause), upTo(s.rng, 300*time.Millisecond)
		if chance(s.rng, 25) {
			length = upTo(s.rng, 3*longestTTL) // now and then for more than two ttls
		}
		if len(s.lasting) < mostAtOnce {
			s.inject(all, length)
		}
		rest(pause, nil)
		s.heal(time.Now())
	}
	for len(s.lasting) > 0 {
		s.heal(time.Now().Add(time.Hour))
		rest(longestPause, nil)
	}
	// What was left half open does not end before that: on a way with two such connections,
	// to find out takes all the time that a call has.
	for _, p := range slices.Concat(s.net.links[:]...) {
		p.Cut()
		p.Heal()
	}
	if k := s.net.monitor; k != nil {
		k.settle(s.tb)
		s.losses = append(s.losses, k.lost()...)
	}
}

// inject draws a fault and starts it. A lasting fault lasts for length.
func (s *injector) inject(faults []fault, length time.Duration) {
	var drawn []fault
	for _, f := range faults {
		drawn = append(drawn, slices.Repeat([]fault{f}, f.odds)...)
	}
	f, from := pick(s.rng, drawn...), stamp()
	i := f.inject(s)
	if i == nil {
		return
	}
	i.kind, i.span = f.kind, span{from, stamp()}
	s.log = append(s.log, i)
	if s.net.monitor != nil {
		s.net.monitor.disturb()
	}
	if i.heal != nil {
		i.to, i.due = 1<<62, time.Now().Add(length)
		s.faulty[i.target] = i.due.Add(time.Hour)
		s.lasting = append(s.lasting, i)
	}
}

// heal ends the faults that are due.
func (s *injector) heal(at time.Time) {
	s.lasting = slices.DeleteFunc(s.lasting, func(i *injection) bool {
		goesOn := i.ended != nil && !i.ended() && time.Since(i.due) < endTimeout
		if i.due.After(at) || goesOn {
			return false
		}
		delete(s.faulty, i.target)
		i.heal()
		i.to = stamp()
		return true
	})
}

// server draws a server that may become faulty.
func (s *injector) server() (i int, target string, ok bool) {
	i = s.rng.IntN(s.net.size)
	target = serverTarget(i)
	if s.isFaulty(target) || s.net.monitor != nil && !s.net.monitor.isHealthy() {
		return i, target, false
	}
	unwell := 0
	for j := range s.net.size {
		if s.isFaulty(serverTarget(j)) {
			unwell++
		}
	}
	return i, target, unwell < s.net.minority
}

func serverTarget(i int) string { return fmt.Sprintf("server %d", i) }

func (s *injector) isFaulty(target string) bool { return time.Now().Before(s.faulty[target]) }

// noteRecovery notes that a server was healed.
func (s *injector) noteRecovery(i int) { s.faulty[serverTarget(i)] = time.Now().Add(s.net.recovery) }
