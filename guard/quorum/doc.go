// Package quorum is the guardstore.Store of several independent Redis servers (Redlock).
// Make a [Store] with [New], give it to guard.NewWithStore, and close it after the Guard.
//
// # What it does
//
// A lock is held while a majority of the servers holds it, or all of them with [All].
// Every try is a round with an owner of its own. Its fence is the highest of the majority's, and
// its lease counts from before the first server was asked.
// What a failed round took, or may still take, is released. If the servers' clocks are
// far apart, a majority gets the fence before the work begins.
//
// The end of a grant wakes the claims that wait. They look before they try, so that a failed
// round causes no further ones. Their order is only roughly that of arrival.
//
// A renewal needs a majority. While there is one, servers that lost the lock are asked
// asynchronously to hold it again. A command that a server did not answer is in its outbox, and is
// repeated until its hold has ended.
//
// A call whose context ends returns at once. Its commands finish in the background.
//
// # What it relies on, and what it never does
//
// It relies on redisstore for one server, and on servers that do not depend on each other. It
// never waits for more servers than decide, and never takes one server's refusal for that of
// the quorum. A majority that loses its data within a renewal interval loses the lock.
package quorum
