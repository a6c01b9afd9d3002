// Package model checks the protocol by which instances get, keep and pass on a lock: its
// tests explore every state that three instances can get into, up to a bound, and find
// none in which
//
//   - two work at a time, on grants that Redis did not lose,
//   - work begins under a fence that is not above all earlier ones, hand-overs within an
//     instance included; where two work because Redis lost its data, the one that it does
//     not know any more does not have the lower fence,
//   - Redis keeps a claim, holding or queued, that its instance is done with, and nothing
//     is on its way to undo it,
//   - a claim that waits is overtaken by one that came later, or gets a worse place,
//   - a claim that waits is told that it is over,
//   - somebody gets in before a MinHold is over, or the lock stays taken for who did not hold it,
//   - a hold that was revoked goes on, or somebody steps in on another one than was meant,
//   - somebody never gets in, though from now on nothing fails and nobody new comes.
//
// Then they break the rules of the protocol one by one, and see a property break for
// each. The shortest way to it shows what the rule is for:
//
//	go test -v -run TestBrokenRules ./guard/internal/model
//
// # What is in it
//
// One key. Three instances, each with two claims of which anything may be left anywhere,
// and a line of callers, some of which do not wait. The scripts acquire and release with
// all that they read and write; the fast path of acquire is that of an empty queue.
// Callers come and go, work ends, passes the lock on, or goes on after a loss. Commands
// are lost, answered late or never, arrive late and any number of times. Messages are
// lost or late. An instance loses its subscription, says so when it asks the next time, and may
// get it back. Holds and grants expire as soon as nobody trusts them. Processes crash.
// Claims are passed over while somebody wants them: because they were silent, or because no message
// reaches them and they did not say so yet. Redis loses its data, and its clock
// steps back. Work has a MinHold; a hold is revoked, or broken; within bounds of their own.
//
// # What is not
//
//   - Time. Whatever may happen after a while may happen at once, and a deadline passes
//     before the hold expires: that is what counting it from the sending is for. So a
//     renewal matters only when it finds the hold gone, a message no more than the pulse
//     of the claim, and an ack window is as good as a ttl. Tombstones and last outlive
//     what is on the wire.
//   - Values of fences, of the clock and of places. They are ranks, and something fits
//     between any two: an instance does not hand over once each µs for long. A new place
//     is behind all others.
//   - Commands that are on their way, but no more than that: a round trip that is answered
//     is one step, unless it says "held". Sending later is the same.
//   - Two more of the same: what makes no difference is forgotten, and instances and
//     claims that have changed places are the same state.
//   - A first caller's hold that is confirmed too late: it asks again, where the real one
//     releases it first.
//   - The counter of nested calls, metadata, several ttls, a cluster, a quorum.
//   - Claims that tolerate others: package limits has them.
//
// Three faults are excuses. Without its data, Redis does not know tombstones. When its
// clock steps back behind fences that it has forgotten, nothing it does can tell; then
// only callers that waited behind a lease need a fence above it. And it does not step
// back while a grant is in use: the grant may have been handed over under fences of
// which Redis has not heard yet.
//
// # The scripts themselves
//
// What the model says of the scripts acquire and release is replayed on them: every call
// that the search comes upon, with what it finds, is made on an embedded Redis whose clock
// is set, and a sample on a redis-server. The answer, the keys, their ttls and the messages
// must be what the model says, in words of Redis (content_test.go has the mapping), also
// beside what the model does not tell apart: dead claims in the queue, old tombstones, places
// ahead of the clock. To Redis, millions of states look like three thousand, so all of them fit
// into make test. The store in memory of guardtest has the same replay (memory_test.go). A rule
// taken out of a script, of the store in memory or of the model is red.
//
// # How far it goes
//
// The bounds are those of bounds_test.go: for example four callers and two commands that
// go unanswered, 2.1 million states, or three callers with a loss of data and a step of
// the clock; 7.4 million states in all, explored in less than a minute. Under the race
// detector it goes less far. Every step of the model is taken.
package model
