// Package clock says how long ago something was, on a clock that a suspended machine does
// not stop.
//
// Leases are measured with it. It relies on package time alone, and on Linux also on
// CLOCK_BOOTTIME. It never sleeps, starts no goroutine and knows nothing of locks.
package clock
