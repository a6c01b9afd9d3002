// Package model checks the protocol by which instances get, share, keep and pass on a lock: its
// tests explore every state that a few claims can get into, up to a bound, and find
// none in which
//
//   - more claims work at a time than one of them tolerates, on grants that Redis did not lose,
//   - a claim believes that it holds the lock, and Redis does not know it, though nothing was lost,
//   - work begins under a wrong fence. The fence of exclusive work is above all earlier fences, those of hand-overs
//     within an instance included. The fence of other work is above the fences of all exclusive work before it, and
//     no other work has it. Where two work because Redis lost its data, the claim that Redis has forgotten does not
//     have the lower fence,
//   - Redis keeps a claim, holding or queued, that its instance has finished, and no command
//     is on its way to remove it,
//   - a claim that waits is overtaken by a later one, or gets a worse place, or gets the answer that it has ended,
//   - a claim gets in before a MinHold has ended, or the lock stays taken though no MinHold asked for that,
//   - a hold continues that was revoked, or has expired; or a renewal confirms a hold which Redis has lost,
//   - a claim never gets in, though from now on nothing fails and no new claim comes.
//
// Then the tests break the rules of the protocol one by one. For each, a property breaks that holds
// while the rules are kept. The shortest way to it shows the purpose of the rule.
//
//	go test -v -run TestBrokenRules ./guard/internal/model
//
// # Contents
//
// One key, and one copy of the scripts acquire, release and renew, with all that they read and write, for two kinds of
// searches. In one, three instances have two claims each, which may be in any state, and a line of
// callers that want to be alone. They hand the lock over. Work has a MinHold; a hold is revoked. In the other,
// up to four claims, each of a process of its own, want to be alone, one of two (Limit) or readers (Shared). Each holder
// has its own expiry, as soon as no process trusts it; the hash lives until the last of them. Renewals are
// late, too.
//
// In both, callers come and go, some do not wait, work ends, or continues after a loss. Commands
// are lost, answered late or never, arrive late and any number of times. Claims ask at any time,
// whether or not a message asks them to. An instance loses its subscription, says so when it asks the next time, and may
// get it back. Holds and grants expire as soon as no process trusts them. Processes crash.
// Claims are skipped while their callers wait: because they were silent, or because no message
// reaches them and they did not say so yet. Redis loses its data. Its clock steps back, also under a hold: of the
// instances, some knew the old clock, and notice by their next reply with a time; others come later.
//
// # Left out
//
//   - Time. Whatever may happen after a while may happen at once, and a deadline passes
//     before the hold expires: that is what counting it from the sending is for. So the renewal of an exclusive hold
//     matters only when it is refused, and an ack window is as good as a ttl. Tombstones outlive
//     all commands on the wire. A silent claim in front that does not fit is skipped after seconds: that is no state.
//   - Values of fences, of the clock and of places. They are ranks, and something fits
//     between any two: an instance does not hand over once each µs for long. A new place
//     is the last one.
//   - The sending of commands: a round trip that is answered
//     is one step, unless it says "held". Sending later is the same.
//   - Two copies of one state: what makes no difference is forgotten, and instances and
//     claims that have changed places are the same state.
//   - A first caller's hold that is confirmed too late: it asks again, where the real one
//     releases it first.
//   - What callers of one process do with a permit that they share: guard/internal/cohort tests it.
//   - Waiting that costs time only: the replay shows which claims a command lets in.
//   - The scripts revoke and break: guard/inspect tests them.
//   - The counter of nested calls, metadata, several ttls, a cluster, a quorum; the index of holders by their ends, which
//     decides nothing. The replay has some of these.
//
// Three faults are excuses. Without its data, Redis does not know tombstones. If it loses its data while its clock is
// before fences that it had, only callers that waited for a lease need a fence above that of the lease. And an instance that
// did not know the clock before it stepped back cannot know that, until an instance that did has had the lock.
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
// The bounds are those of model_test.go, and every step of the model is taken within them. How -short and -large
// change them: see package modeltest.
package model
