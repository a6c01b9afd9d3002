// Package limits checks the protocol of claims that tolerate others, as package model does that
// of the exclusive lock: its tests explore every state that a few claims can get into, up to a
// bound, and find none in which
//
//   - more believe that they are inside than one of them tolerates,
//   - somebody believes it, and Redis does not know it, though nothing was lost,
//   - work begins under a fence that it must not have: that of exclusive work is above all
//     earlier ones, that of others above those of all exclusive work before, and nobody else's,
//   - a claim that waits is overtaken, or gets a worse place, or is told that it is over,
//   - Redis keeps a claim that is over, and nothing is on its way to undo it,
//   - a hold whose time was over comes back by a renewal, or a renewal says that a hold goes on
//     which Redis has lost,
//   - a claim that asks is kept waiting by a holder whose time is over, or by nobody,
//   - somebody fits, is in front, and is not let in by a command that has to look,
//   - somebody never gets in, though from now on nothing fails and nobody new comes.
//
// Then they break the rules one by one, and see a property break for each. Two of the properties
// cost waiting only, and say so: a rule that breaks no other one could go, and nobody would work
// beside somebody who minds it.
//
//	go test -v -run TestBrokenRules ./guard/internal/model/limits
//
// # What is in it
//
// One key, and up to four claims: exclusive ones, exclusive ones by the scripts of before there
// were limits, Limit(2), and Shared; some are of callers that do not wait. The scripts acquire,
// release, renew, share, unshare and renew_shared, with all that they read and write. Commands
// are lost, answered late or never, arrive late and any number of times, renewals, too. Each
// holder has its own time, which is over as soon as nobody trusts it; the hash lives until the
// last one's is. Processes crash, or lose their subscription. Claims are passed over while somebody wants them. Redis loses
// its data, and its clock steps back while nobody is inside.
//
// # What is not
//
//   - What package model has: callers in a line, hand-overs, next claims, messages. A claim here
//     is a process of its own. What callers of one process do with a claim that they share is
//     tested in guard/internal/cohort.
//   - Fences that a claim asks for. The replay has them.
//   - A subscription that comes back.
//   - Time, values of fences and of places: as there. So that a silent one in front is passed
//     over after seconds and not after 25 is no state; guard/internal/redisstore tests it.
//   - @many and @soon. They spare a look at all holders, and decide nothing. The replay writes
//     them down as those of somebody who left.
//   - Revocation. MinHold is for exclusive claims only.
//
// # The scripts themselves
//
// Every call that a search within smaller bounds comes upon is made on an embedded Redis with
// the real Lua, whose clock is set, and on the store in memory of guardtest: see package model.
// replay_test.go has the mapping. A sample is made on a redis-server.
//
// # How far it goes
//
// The bounds are those of bounds_test.go. With -limits.large it goes further, for minutes.
package limits
