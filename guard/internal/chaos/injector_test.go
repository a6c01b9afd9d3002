package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/inspect"
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
	ended  <-chan struct{} // if there is one, heal has to wait until it is closed
}

// injector draws faults from a seed, one after another.
type injector struct {
	tb      testing.TB
	seed    uint64
	rng     *rand.Rand // of the fault that is being drawn
	net     *network
	workers *workers

	faulty    map[string]bool   // targets of faults that last
	recovered map[int]time.Time // when a server that was healed counts as well again
	clockBase []time.Duration   // by how much the servers' clocks are ahead, about
	lasting   []*incident
	log       []*incident
	losses    []loss // when data may have been lost
	stepsIn   []stepIn
}

// incident is a fault that happened.
type incident struct {
	injection
	span
	kind string
	due  time.Time
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
		switch {
		case n == 0 && len(s.net.faults) > 0:
			s.inject(s.net.faults, length) // what the topology is there for
		case len(s.lasting) < mostAtOnce:
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
	h := f.inject(s)
	if h == nil {
		return
	}
	i := &incident{kind: f.kind, injection: *h, span: span{from, stamp()}}
	s.log = append(s.log, i)
	if s.net.monitor != nil {
		s.net.monitor.disturb()
	}
	if h.heal != nil {
		i.to, i.due = 1<<62, time.Now().Add(length)
		s.faulty[h.target] = true
		s.lasting = append(s.lasting, i)
	}
}

// heal ends the faults that are due.
func (s *injector) heal(at time.Time) {
	s.lasting = slices.DeleteFunc(s.lasting, func(i *incident) bool {
		goesOn := i.ended != nil && !isClosed(i.ended) && time.Since(i.due) < endTimeout
		if i.due.After(at) || goesOn {
			return false
		}
		i.heal()
		i.to = stamp()
		delete(s.faulty, i.target)
		return true
	})
}

// server draws a server that may become faulty.
func (s *injector) server() (i int, target string, ok bool) {
	i = s.rng.IntN(s.net.size)
	target = serverTarget(i)
	if s.faulty[target] || s.net.monitor != nil && !s.net.monitor.isHealthy() {
		return i, target, false
	}
	unwell := 0
	for j := range s.net.size {
		if j != i && (s.faulty[serverTarget(j)] || time.Now().Before(s.recovered[j])) {
			unwell++
		}
	}
	return i, target, unwell < s.net.minority
}

func serverTarget(i int) string { return fmt.Sprintf("server %d", i) }

// noteRecovery notes that a server was healed.
func (s *injector) noteRecovery(i int) { s.recovered[i] = time.Now().Add(s.net.recovery) }

// stepTimeout is for how long an operator tries to step in.
const stepTimeout = time.Second

// stepFaults are what an operator does.
var stepFaults = []fault{
	{"hold revoked", 8, func(s *injector) *injection { return s.stepIn((*inspect.Inspector).Revoke, false) }},
	{"hold broken", 3, func(s *injector) *injection { return s.stepIn((*inspect.Inspector).Break, true) }},
}

// stepIn is what an operator did to a hold, or may have done.
type stepIn struct {
	span
	key   string
	fence uint64
	done  bool // for sure
}

// stepIn revokes or breaks a hold that is there, or was a moment ago.
func (s *injector) stepIn(with func(*inspect.Inspector, context.Context, string, uint64) (bool, error), breaks bool) *injection {
	step, client := stepIn{key: pick(s.rng, allKeys...)}, s.inspected()
	if client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	i := inspect.New(client)
	var info inspect.Info
	for len(info.Holders) == 0 {
		var err error
		if info, err = i.Get(ctx, step.key); err != nil {
			return nil // no server answers, or the key has no holder
		}
	}
	if chance(s.rng, 50) {
		rest(upTo(s.rng, 100*time.Millisecond), nil) // for another one to come
	}
	step.fence, step.from = pick(s.rng, info.Holders...).Fence, stamp()
	var err error
	step.done, err = with(i, ctx, step.key, step.fence)
	step.to = stamp()
	if step.done || err != nil {
		s.stepsIn = append(s.stepsIn, step)
		if breaks {
			s.losses = append(s.losses, loss{span: step.span, key: step.key})
		}
	}
	return &injection{target: step.key}
}

// inspected is where an operator looks at locks: a server that takes writes.
func (s *injector) inspected() redis.UniversalClient {
	if s.net.all != nil {
		return s.net.all
	}
	for i := range s.net.size {
		if s.net.isPrimary(i) && !s.faulty[serverTarget(i)] {
			return s.net.admins[i]
		}
	}
	return nil
}
