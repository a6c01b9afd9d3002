// Package watchdog ends a grant before the store can, and renews it until then.
//
// One goroutine per Watchdog keeps the schedule of all its grants: each is renewed every third
// of its ttl, together with others that are due, in batches of at most 500 and 4 at a time. A
// renewal that failed is repeated until the deadline. A renewal also carries what the store has
// to know of the present holder: the depth and the metadata.
//
// # Trust window
//
// Each command by which the store confirmed the grant moves its deadline to
//
//	just before the command was sent + ttl - (ttl/10 + 2ms)
//
// It counts from the sending, so that a slow answer cannot stretch it. It is before the key can
// expire, also while NTP slews a clock: the server's may run 11 % too fast, or the process's 10 %
// too slow, or both be wrong by 5 %. chrony slews by 8.3 % at most, unless its maxslewrate says
// otherwise. At the deadline the watchdog notifies the holder, whether or not the store can be
// reached. Nothing brings the grant back, not even a renewal that succeeds a moment later.
//
// It relies on package clock, which counts on while the machine is suspended, and on a store
// whose Renew heeds the deadline of its context. The goroutine of the schedule never waits for
// the store or for an observer, a holder's Cancel never waits for anything, and nothing renews a
// grant after Drop.
package watchdog
