// Package model checks the protocol by which instances get, share, keep and pass on a lock: its
// tests explore every state that a few claims can get into, up to a bound, and find
// none in which
//
//   - more work at a time than one of them tolerates, on grants that Redis did not lose,
//   - somebody believes that it is inside, and Redis does not know it, though nothing was lost,
//   - work begins under a fence that it must not have: that of exclusive work is above all earlier ones, hand-overs
//     within an instance included, that of others above those of all exclusive work before, and nobody else's; where
//     two work because Redis lost its data, the one that it does not know any more does not have the lower fence,
//   - Redis keeps a claim, holding or queued, that its instance is done with, and nothing
//     is on its way to undo it,
//   - a claim that waits is overtaken by one that came later, or gets a worse place, or is told that it is over,
//   - somebody gets in before a MinHold is over, or the lock stays taken though no MinHold asked for that,
//   - a hold that was revoked, or whose time was over, goes on; a renewal says that a hold goes on which Redis has
//     lost; or somebody steps in on another one than was meant,
//   - a claim that asks is kept waiting by a holder whose time is over, or by nobody,
//   - somebody fits, is in front, and is not let in by a command that has to look,
//   - somebody never gets in, though from now on nothing fails and nobody new comes.
//
// Then they break the rules of the protocol one by one, and see a property break for
// each, which does not while the rules are kept. The shortest way to it shows what the rule is for. Two of the
// properties cost waiting only, and say so: a rule that breaks no other one could go, and nobody would work
// beside somebody who minds it.
//
//	go test -v -run TestBrokenRules ./guard/internal/model
//
// # What is in it
//
// One key, and one copy of the scripts acquire, release and renew, with all that they read and write, for two kinds of
// searches. In one, three instances have two claims each, of which anything may be left anywhere, and a line of
// callers that want to be alone. They hand the lock over. Work has a MinHold; a hold is revoked, or broken. In the other,
// up to four claims, each of a process of its own, want to be alone, one of two (Limit) or readers (Shared). Each holder
// has its own time, which is over as soon as nobody trusts it; the hash lives until the last one's is. Renewals are
// late, too.
//
// In both, callers come and go, some do not wait, work ends, or goes on after a loss. Commands
// are lost, answered late or never, arrive late and any number of times. Messages are
// lost or late. An instance loses its subscription, says so when it asks the next time, and may
// get it back. Holds and grants expire as soon as nobody trusts them. Processes crash.
// Claims are passed over while somebody wants them: because they were silent, or because no message
// reaches them and they did not say so yet. Redis loses its data, and its clock steps back.
//
// # What is not
//
//   - Time. Whatever may happen after a while may happen at once, and a deadline passes
//     before the hold expires: that is what counting it from the sending is for. So the renewal of an exclusive hold
//     matters only when it is refused, a message no more than the pulse
//     of the claim, and an ack window is as good as a ttl. Tombstones and last outlive
//     what is on the wire. That a silent one in front, which does not fit, is passed over after seconds is no state.
//   - Values of fences, of the clock and of places. They are ranks, and something fits
//     between any two: an instance does not hand over once each µs for long. A new place
//     is behind all others.
//   - Commands that are on their way, but no more than that: a round trip that is answered
//     is one step, unless it says "held". Sending later is the same.
//   - Two more of the same: what makes no difference is forgotten, and instances and
//     claims that have changed places are the same state.
//   - A first caller's hold that is confirmed too late: it asks again, where the real one
//     releases it first.
//   - What callers of one process do with a permit that they share: guard/internal/cohort tests it.
//   - The counter of nested calls, metadata, several ttls, a cluster, a quorum; the index of holders by their ends, which
//     decides nothing. The replay has some of these.
//
// Three faults are excuses. Without its data, Redis does not know tombstones. When its
// clock steps back behind fences that it has forgotten, nothing it does can tell; then
// only callers that waited behind a lease need a fence above it. And it does not step
// back while a grant is in use, or on its way: the grant may be handed over under fences of
// which Redis has not heard yet.
//
// # The scripts themselves
//
// What the model says of the scripts is replayed on them: every call
// that a search comes upon, with what it finds, is made on an embedded Redis whose clock
// is set, and a sample on a redis-server. The answer, the keys, their ttls and the messages
// must be what the model says, in words of Redis (content_test.go has the mapping), also
// beside what the model does not tell apart: dead claims in the queue, old tombstones, places
// ahead of the clock. The store in memory of guardtest has the same replay (memory_test.go). A rule
// that is taken out of a script is noticed.
//
// # How far it goes
//
// The bounds are those of model_test.go, and every step of the model is taken within them. How -short, -large and the
// race detector change them: see package modeltest.
package model
