package chaos_test

import (
	"time"
)

const (
	// mostSlew is chrony's, by default, and within what docs/production.md says is covered.
	mostSlew  = 0.083333
	slewPulse = 2 * time.Millisecond
	// A driver that was kept from running slews less, and never catches up in one step.
	slewGap = 10 * time.Millisecond

	farClock   = 2 * time.Second        // from where a clock is at home
	groupClock = 300 * time.Millisecond // servers that watch each other take more for a failure
)

// clockFaults befall servers that have clocks of their own.
var clockFaults = []fault{
	{"clock stepped", 6, (*storm).stepClock},
	{"clock slewed", 6, (*storm).slewClock},
}

// stepClock sets the clock of a server. Now and then it is a server without a group that gets
// ahead by an hour, for good: set back by as much, whoever was killed would hold its locks for
// an hour.
func (s *storm) stepClock() *harm { return s.onServer(s.step) }

func (s *storm) step(i int) (heal func()) {
	far := farClock
	if s.net.group != nil {
		far = groupClock
	}
	var step time.Duration
	switch {
	case s.net.group == nil && chance(s.rng, 5):
		s.home[i] += time.Hour
		step = time.Hour
	case chance(s.rng, 50):
		step = pick(s.rng, 50*time.Millisecond, -50*time.Millisecond)
	default:
		step = upTo(s.rng, 2*far) - far
	}
	c := s.net.clocks[i]
	was := c.ahead()
	now := min(max(was+step, s.home[i]-far), s.home[i]+far)
	from := stamp()
	s.must(c.set(now))
	c.settled()
	if now > was && s.net.isPrimary(i) {
		s.lost(from) // keys may have expired early
	}
	s.convalesce(i)
	return nil
}

// slewClock has a clock go faster or slower than it should. No lock may be lost by that.
func (s *storm) slewClock() *harm {
	rate := mostSlew * (2*s.rng.Float64() - 1)
	if chance(s.rng, 50) {
		rate = pick(s.rng, mostSlew, -mostSlew)
	}
	return s.onServer(func(i int) func() {
		c, stop, stopped := s.net.clocks[i], make(chan struct{}), make(chan error, 1)
		go func() {
			var err error
			for at := time.Now(); err == nil && !isClosed(stop); {
				rest(slewPulse, stop)
				now := time.Now()
				err = c.set(c.ahead() + time.Duration(rate*float64(min(now.Sub(at), slewGap))))
				at = now
			}
			c.settled()
			stopped <- err
		}()
		return func() { close(stop); s.must(<-stopped) }
	})
}
