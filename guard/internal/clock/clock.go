package clock

import (
	"math"
	"time"
)

// Instant is a point on a clock that neither jumps nor stands still while the machine
// is suspended, in nanoseconds. Leases are measured on it. The zero instant is never
// now.
type Instant int64

// Forever is for ever, short enough to be added to any instant (73 years).
const Forever time.Duration = 1 << 61

// Never is after every other instant.
const Never Instant = math.MaxInt64

// start is epoch on that clock. The epoch is far from 0 because package time may
// be set back: a testing/synctest bubble begins in the year 2000.
var start = time.Now()

const epoch Instant = 1 << 60

// Now returns the present. It reads the suspension last: a suspension between the two readings makes the
// instant later, which ends a lease early, never late.
func Now() Instant {
	t := time.Now()
	elapsed := t.Sub(start)
	return epoch.Add(elapsed + machine.length(t.UnixNano()-int64(elapsed)))
}

// Add returns the instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns how long it takes from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Until returns how long it takes to get to i. It is negative when i has passed.
func (i Instant) Until() time.Duration { return i.Sub(Now()) }

// Time returns i on the wall clock.
func (i Instant) Time() time.Time { return time.Now().Add(i.Until()) }

// InBubble returns whether i was read in a testing/synctest bubble. There, package time begins in the
// year 2000, before this process did, and no clock goes back otherwise.
func (i Instant) InBubble() bool { return i < epoch }
