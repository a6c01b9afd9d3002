package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	mostAtOnce = 4                      // faults that last
	lull       = 400 * time.Millisecond // the longest time between two faults
)

// fault is a kind of harm. strike does it, or returns nil if what it drew to be harmed
// is harmed already.
type fault struct {
	kind   string
	odds   int
	strike func(s *storm) *harm
}

// harm is what was done. Without heal it is over at once.
type harm struct {
	target string
	heal   func()
	over   <-chan struct{} // if there is one, heal has to wait until it is closed
}

// storm draws faults from a seed, one after another.
type storm struct {
	tb   testing.TB
	seed uint64
	rng  *rand.Rand // of the fault that is being drawn
	net  *network
	crew *crew

	harmed    map[string]bool   // targets of faults that last
	recovered map[int]time.Time // when a server that was healed counts as well again
	home      []time.Duration   // by how much the servers' clocks are ahead, about
	lasting   []*incident
	log       []*incident
	losses    []loss // when data may have been lost
	stepsIn   []stepIn
	replaced  int // how often primaries were
}

// incident is a fault that happened.
type incident struct {
	harm
	span
	kind string
	due  time.Time
}

func (i *incident) String() string { return fmt.Sprintf("%s (%s)", i.kind, i.target) }

// rage lets faults happen for a time, and ends them all. What it draws depends on the
// seed alone: a fault that cannot happen now makes no difference to those after it.
func (s *storm) rage(d time.Duration) {
	end := time.Now().Add(d)
	all := append(slices.Clip(faults), s.net.faults...)
	for n := uint64(0); time.Now().Before(end); n++ {
		s.rng = rand.New(rand.NewPCG(s.seed, n))
		pause := upTo(s.rng, lull)
		switch {
		case n == 0 && len(s.net.faults) > 0:
			s.strike(s.net.faults, s.length()) // what the topology is there for
		case len(s.lasting) < mostAtOnce:
			s.strike(all, s.length())
		}
		rest(pause, nil)
		s.heal(time.Now())
	}
	for len(s.lasting) > 0 {
		s.heal(time.Now().Add(time.Hour))
		rest(lull, nil)
	}
	// What was left half open is not over before that: on a way with two such connections,
	// to find out takes all the time that a call has.
	s.net.cut()
	if k := s.net.keeper; k != nil {
		k.settle(s.tb)
		losses, replaced := k.lost()
		s.losses, s.replaced = append(s.losses, losses...), replaced
	}
}

// strike draws a fault and lets it happen; one that lasts, for that long.
func (s *storm) strike(faults []fault, length time.Duration) {
	sum := 0
	for _, f := range faults {
		sum += f.odds
	}
	n := s.rng.IntN(sum)
	for _, f := range faults {
		if n -= f.odds; n >= 0 {
			continue
		}
		i := &incident{kind: f.kind, span: span{from: stamp()}}
		h := f.strike(s)
		if h == nil {
			return
		}
		i.harm, i.to = *h, stamp()
		s.log = append(s.log, i)
		if s.net.keeper != nil {
			s.net.keeper.disturb()
		}
		if h.heal != nil {
			i.to, i.due = 1<<62, time.Now().Add(length)
			s.harmed[h.target] = true
			s.lasting = append(s.lasting, i)
		}
		return
	}
}

// length draws how long a fault lasts: now and then for more than two ttls.
func (s *storm) length() time.Duration {
	if chance(s.rng, 25) {
		return upTo(s.rng, 3*longestTTL)
	}
	return upTo(s.rng, 300*time.Millisecond)
}

// heal ends the faults that are due.
func (s *storm) heal(at time.Time) {
	lasting := s.lasting
	s.lasting = nil
	for _, i := range lasting {
		if i.due.After(at) || !i.mayHeal() {
			s.lasting = append(s.lasting, i)
			continue
		}
		i.heal()
		i.to = stamp()
		delete(s.harmed, i.target)
	}
}

// worker draws a worker that lives and is not harmed.
func (s *storm) worker() (i int, target string, ok bool) {
	i = s.rng.IntN(crewSize)
	target = fmt.Sprintf("worker slot %d", i)
	return i, target, s.crew.members[i] != nil && !s.harmed[target]
}

// link draws a worker and some of its proxies that are not harmed: of a quorum's, all
// or a minority.
func (s *storm) link() (proxies []int, worker int, target string, ok bool) {
	worker = s.rng.IntN(crewSize)
	proxies = s.rng.Perm(s.net.size)
	if chance(s.rng, 50) {
		proxies = proxies[:s.net.minority]
	}
	target = fmt.Sprintf("link of slot %d", worker)
	return proxies, worker, target, !s.harmed[target]
}

// server draws a server that may be harmed.
func (s *storm) server() (i int, target string, ok bool) {
	i = s.rng.IntN(s.net.size)
	target = serverTarget(i)
	if s.harmed[target] || s.net.keeper != nil && !s.net.keeper.isWhole() {
		return i, target, false
	}
	unwell := 0
	for j := range s.net.size {
		if j != i && (s.harmed[serverTarget(j)] || time.Now().Before(s.recovered[j])) {
			unwell++
		}
	}
	return i, target, unwell < s.net.minority
}

func serverTarget(i int) string { return fmt.Sprintf("server %d", i) }

// convalesce notes that a server was healed.
func (s *storm) convalesce(i int) { s.recovered[i] = time.Now().Add(s.net.recovery) }

// mayHeal is false while a harm has to go on.
func (i *incident) mayHeal() bool {
	return i.over == nil || isClosed(i.over) || time.Since(i.due) > endTimeout
}
