package redisstore

import (
	"context"
	"sync"

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
	doubtful bool    // a command failed since: another server may answer the next one
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

// least returns what the clock shows at the least at another instant, which may be before the reading.
func (r reading) least(now instant) uint64 {
	passed := now.Sub(r.when)
	return r.at + uint64((passed - max(passed, -passed)/slow).Microseconds())
}

// most returns what the clock shows at the most, had it not been set.
func (r reading) most(now instant) uint64 {
	passed := now.Sub(r.when)
	return r.at + uint64((passed + max(passed, -passed)/fast).Microseconds()) + 1
}

// observe takes what came of a command: the time that its reply carried, or 0, and its error. That time must be the
// server's, not an earlier fence. It returns the high water.
func (c *serverClock) observe(at uint64, err error, sent, came instant) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at > 0 {
		setBack := c.reached.at > 0 && at < c.reached.least(sent)
		if setBack {
			c.high = max(c.high, c.ceiling.most(came))
		}
		if setBack || c.reached.at == 0 || at >= c.reached.least(came) {
			c.reached = reading{at, came}
		}
		if setBack || at >= c.ceiling.at { // else a later reply overtook this one
			c.ceiling = reading{at, sent}
		}
		c.doubtful = false
	}
	c.doubtful = c.doubtful || err != nil
	return c.high
}

// above is what Redis has to be told that the next fence must be above; 0 if its clock is above that.
func (c *serverClock) above(now instant) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached.at > 0 && c.reached.least(now) > c.high {
		return 0
	}
	return c.high
}

// mayBeBelow says whether the clock may be below a fence now.
func (c *serverClock) mayBeBelow(fence uint64, now instant) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fence > 0 && (c.reached.at == 0 || c.doubtful || fence > c.reached.least(now))
}

// highest is what no fence of the server can be above.
func (c *serverClock) highest(now instant) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ceiling.at == 0 {
		return c.high
	}
	return max(c.high, c.ceiling.most(now))
}

// follow has the next fences be above those of another server, whose locks this one has now.
func (c *serverClock) follow(high uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.high = max(c.high, high)
}

// serverClocks are those of the servers of a Store.
type serverClocks struct {
	single serverClock // of the server that has all keys

	mu     sync.Mutex
	byNode map[string]*serverClock
	bySlot map[uint16]*serverClock // of the node that had it last
}

// clock returns the clock of the server that has a lock.
func (s *Store) clock(ctx context.Context, key, lock string) *serverClock {
	node := s.conn.Server(ctx, lock)
	if node == "" { // this is no cluster, or it is not known yet
		return &s.clocks.single
	}
	return s.clocks.of(node, slotOf(key), s.now())
}

// of returns the clock of a node of a cluster that has a slot. If another node had it before, its clock may have been
// ahead.
func (s *serverClocks) of(node string, slot uint16, now instant) *serverClock {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode == nil {
		s.byNode, s.bySlot = make(map[string]*serverClock), make(map[uint16]*serverClock)
	}
	c := s.byNode[node]
	if c == nil {
		c = &serverClock{}
		s.byNode[node] = c
	}
	if was := s.bySlot[slot]; was != nil && was != c {
		c.follow(was.highest(now))
	}
	s.bySlot[slot] = c
	return c
}
