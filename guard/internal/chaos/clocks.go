package chaos

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"sync"
	"time"
)

// lookPulse is the time between two looks at servers, and the shortest era of a clock.
const lookPulse = 100 * time.Millisecond

// serverClock is the wall clock of a server, which may differ from the machine's.
type serverClock struct {
	file *os.File

	mu   sync.Mutex // protects what follows
	now  time.Duration
	eras []era
}

// era is a time in which a clock was ahead of the machine's by something between two
// bounds. It lasts until the next one begins.
type era struct {
	from      int64
	low, high time.Duration
}

// set moves the clock. While it is slewed, one move cannot be distinguished from another.
func (c *serverClock) set(ahead time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := era{stamp(), min(c.now, ahead), max(c.now, ahead)}
	if last := &c.eras[len(c.eras)-1]; e.from-last.from < int64(lookPulse) {
		last.low, last.high = min(last.low, e.low), max(last.high, e.high)
	} else {
		c.eras = append(c.eras, e)
	}
	c.now = ahead
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0)
	return err
}

// settled notes that the clock is no longer slewed.
func (c *serverClock) settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eras = append(c.eras, era{stamp(), c.now, c.now})
}

func (c *serverClock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// clocks are those of all servers. It is nil if they go by the machine's.
type clocks []*serverClock

// bounds is by how much, at least, a clock was ahead between two instants, and by how much any clock was at most until then.
func (cs clocks) bounds(from, to int64) (low, high time.Duration) {
	if cs == nil {
		return 0, 0
	}
	low, high = math.MaxInt64, math.MinInt64
	for _, c := range cs {
		c.mu.Lock()
		for i, e := range c.eras {
			if e.from <= to {
				high = max(high, e.high)
			}
			if e.from <= to && (i+1 == len(c.eras) || c.eras[i+1].from >= from) {
				low = min(low, e.low)
			}
		}
		c.mu.Unlock()
	}
	return low, high
}

// differ reports whether another server may have another time.
func (cs clocks) differ() bool {
	return slices.ContainsFunc(cs, func(c *serverClock) bool { return c.ahead() != cs[0].ahead() })
}

// remembered is for how long a server may remember an owner, a minute, or a fence, for as long as it may be ahead of the
// server's clock.
func (cs clocks) remembered(server int) time.Duration {
	most := time.Minute + time.Second
	if cs != nil {
		_, high := cs.bounds(0, stamp())
		most += high - cs[server].ahead()
	}
	return most
}
