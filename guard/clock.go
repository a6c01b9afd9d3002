package guard

import "time"

// instant is a point on a clock that neither jumps nor stands still while the machine
// is suspended, in nanoseconds since this process began. Leases are measured on it.
type instant int64

var clockStart = time.Now()

// now reads the suspension last: one that falls between the two readings makes the
// instant later, which ends a lease early, never late.
func now() instant {
	elapsed := time.Since(clockStart)
	return instant(elapsed + suspended())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

// until is how long it takes to get to i, negative when i has passed.
func (i instant) until() time.Duration { return i.sub(now()) }

// time gives i on the wall clock.
func (i instant) time() time.Time { return time.Now().Add(i.until()) }
