package redisstore

import (
	"sync"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

type instant = clock.Instant

// serverClock is what a Store knows of the clock of one server: of a node of a cluster, or of whatever server a
// Sentinel's name leads to. A fence is the time of that clock. If the clock was set back, the next fences would be below
// earlier ones, and Redis does not know these any more: the Store does.
//
// It has one sample: a time that a reply carried, between two times of this process. A reply whose time is below
// what the clock shows at least shows a step back. Then no earlier fence can be above what the clock would have shown
// at most: that is the high water, which the next fences must be above until the clock has passed it.
type serverClock struct {
	mu         sync.Mutex
	at         uint64  // the server's time (µs); 0: there is no sample
	sent, came instant // of the command whose reply had it
	doubtful   bool    // a command went unanswered since: another server may answer the next one
	high       uint64  // the high water; 0: the clock was not set back
}

// drift is by how much the two clocks may go apart: 200 ppm.
const drift = 5000

// least is what the clock shows at the least at a time. It needs c.mu.
func (c *serverClock) least(now instant) uint64 {
	elapsed := max(now.Sub(c.came), 0)
	return c.at + uint64((elapsed - elapsed/drift).Microseconds()) //nolint:gosec // not negative
}

// most is what the clock shows at the most at a time. It needs c.mu.
func (c *serverClock) most(now instant) uint64 {
	elapsed := max(now.Sub(c.sent), 0)
	return c.at + uint64((elapsed + elapsed/drift).Microseconds()) + 1 //nolint:gosec // not negative
}

// observe takes the time that a reply carried, if it did. It must be the server's time, not an earlier fence.
func (c *serverClock) observe(at uint64, sent, came instant) {
	if at == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.at == 0:
	case sent.Sub(c.came) > 0 && at < c.least(sent): // overlapping calls prove nothing
		c.high = max(c.high, c.most(came))
	case at < c.at:
		return // overtaken by a later reply
	}
	c.at, c.sent, c.came, c.doubtful = at, sent, came, false
}

// doubt notes that a command went unanswered.
func (c *serverClock) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubtful = true
}

// above is what Redis has to be told that the next fence must be above; 0 if its clock is above that.
func (c *serverClock) above(now instant) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.least(now) > c.high {
		return 0
	}
	return c.high
}

// highWater is what every fence must be above that was not in use before the step.
func (c *serverClock) highWater() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.high
}

// mayBeBelow says whether the clock may be below a fence now.
func (c *serverClock) mayBeBelow(fence uint64, now instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fence > 0 && (c.at == 0 || c.doubtful || fence > c.least(now))
}

// serverClocks are those of the servers of a Store, by name.
type serverClocks struct {
	mu     sync.Mutex
	byName map[string]*serverClock
}

func (s *serverClocks) of(server string) *serverClock {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byName[server]
	if c == nil {
		if s.byName == nil {
			s.byName = make(map[string]*serverClock)
		}
		c = &serverClock{}
		s.byName[server] = c
	}
	return c
}
