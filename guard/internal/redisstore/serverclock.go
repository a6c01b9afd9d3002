package redisstore

import (
	"sync"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

type instant = clock.Instant

// serverClock is what a Store knows of the clock of one server: of a node of a cluster, or of whatever server a
// Sentinel's name leads to. A fence is the time of that clock. If the clock was set back, the next fences would be below
// earlier ones, and Redis does not know these any more: the Store does.
//
// A reply carries the server's time, of some moment between the command and the reply. So it gives a time that the
// clock has at least reached when the reply comes, and a time that it had not passed when the command was sent. A reply
// with a time below what the clock has reached shows that the clock was set back. Then no earlier fence can be above what
// the clock would have shown by now: that is the high water, which the next fences must be above until the clock has passed it.
type serverClock struct {
	mu       sync.Mutex
	reached  reading // of the replies that say the most, since the clock was set back
	ceiling  reading // of the last reply
	doubtful bool    // a command went unanswered since: another server may answer the next one
	high     uint64  // the high water; 0: the clock was not set back
}

// reading is what a clock showed (µs) at an instant, at least or at the most.
type reading struct {
	at   uint64 // 0: there was no reply
	when instant
}

const (
	slow = 1000 // a server's clock goes slower than this process's by a thousandth at the most: else it was set back
	fast = 10   // and faster by a tenth: NTP may slew a clock that much
)

// after returns the reading at another instant, if the clocks differ by one part in so many.
func (r reading) after(now instant, up bool, part time.Duration) uint64 {
	passed := now.Sub(r.when)
	differ := max(passed, -passed) / part
	if up {
		return r.at + uint64((passed + differ).Microseconds()) + 1
	}
	return r.at + uint64((passed - differ).Microseconds())
}

// least is what the clock shows at the least at an instant. It needs c.mu.
func (c *serverClock) least(now instant) uint64 { return c.reached.after(now, false, slow) }

// most is what the clock shows at the most, had it not been set. It needs c.mu.
func (c *serverClock) most(now instant) uint64 { return c.ceiling.after(now, true, fast) }

// observe takes the time that a reply carried, if it did. It must be the server's time, not an earlier fence.
func (c *serverClock) observe(at uint64, sent, came instant) {
	if at == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	setBack := c.reached.at > 0 && at < c.least(sent)
	if setBack {
		c.high = max(c.high, c.most(came))
	}
	if setBack || c.reached.at == 0 || at >= c.least(came) {
		c.reached = reading{at, came}
	}
	if setBack || at >= c.ceiling.at { // else a later reply overtook this one
		c.ceiling = reading{at, sent}
	}
	c.doubtful = false
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
	if c.reached.at > 0 && c.least(now) > c.high {
		return 0
	}
	return c.high
}

// highWater returns the time that the clock had reached before it was set back. Each fence that was not in use then
// must be above it.
func (c *serverClock) highWater() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.high
}

// mayBeBelow says whether the clock may be below a fence now.
func (c *serverClock) mayBeBelow(fence uint64, now instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fence > 0 && (c.reached.at == 0 || c.doubtful || fence > c.least(now))
}

// highest is what no fence of the server can be above.
func (c *serverClock) highest(now instant) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ceiling.at == 0 {
		return c.high
	}
	return max(c.high, c.most(now))
}

// follow has the next fences be above those of another server, whose locks this one has now.
func (c *serverClock) follow(high uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.high = max(c.high, high)
}

// serverClocks are those of the servers of a Store, by name, and on a cluster those of the nodes that had each slot
// last.
type serverClocks struct {
	mu     sync.Mutex
	byName map[string]*serverClock
	bySlot map[uint16]*serverClock
}

// of returns the clock of the server that has a key. If another node of a cluster had it before, its clock may have been
// ahead.
func (s *serverClocks) of(server, key string, now instant) *serverClock {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byName[server]
	if c == nil {
		if s.byName == nil {
			s.byName, s.bySlot = make(map[string]*serverClock), make(map[uint16]*serverClock)
		}
		c = &serverClock{}
		s.byName[server] = c
	}
	if server == "" { // it is no cluster
		return c
	}
	slot := slotOf(key)
	if was := s.bySlot[slot]; was != nil && was != c {
		c.follow(was.highest(now))
	}
	s.bySlot[slot] = c
	return c
}
