package guard

import "time"

// instant is a point on a clock that neither jumps nor stands still while the machine
// is suspended, in nanoseconds. Leases are measured on it. The zero instant is never
// now.
type instant int64

// aeon is for ever, short enough to be added to any instant (73 years).
const aeon time.Duration = 1 << 61

// clockStart is epoch on that clock. The epoch is far from 0 because package time may
// be set back: a testing/synctest bubble begins in the year 2000.
var clockStart = time.Now()

const epoch instant = 1 << 60

// now reads the suspension last: one that falls between the two readings makes the
// instant later, which ends a lease early, never late.
func now() instant {
	_, at := reading()
	return at
}

// reading also gives what package time's clock says.
func reading() (time.Time, instant) {
	t := time.Now()
	elapsed := t.Sub(clockStart)
	return t, epoch.add(elapsed + suspended(t.UnixNano()-int64(elapsed)))
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

// until is how long it takes to get to i, negative when i has passed.
func (i instant) until() time.Duration { return i.sub(now()) }

// time gives i on the wall clock.
func (i instant) time() time.Time { return time.Now().Add(i.until()) }
