// Package quorum is the guardstore.Store of several independent Redis servers (Redlock).
// Make a [Store] with [New], give it to guard.NewWithStore, and close it after the Guard.
//
// # What it does
//
// A lock is held while a majority of the servers holds it, or all of them with [All].
// Every try is a round with an owner of its own; its fence is the highest of the majority's, and
// its trust window counts from before the first server was asked.
// What a round that failed took, or may yet take, is taken back. Where the servers' clocks are
// far apart, a majority is told the fence before the work begins.
//
// Those who wait are woken by the end of a grant, and look before they try, so that failed
// rounds do not feed on each other. Their order is only roughly that of arrival.
//
// A renewal needs a majority. While there is one, servers that lost the lock are asked to hold
// it again, behind the caller. What a server did not answer is in its outbox, and is asked for
// until the hold it is about is over.
//
// A call whose context ends returns at once; what it began goes on behind it.
//
// # What it relies on, and what it never does
//
// It relies on redisstore for one server, and on servers that do not depend on each other. It
// never waits for more servers than decide, and never takes one server's refusal for that of
// the quorum. A majority that loses its data within a renewal interval loses the lock.
package quorum
