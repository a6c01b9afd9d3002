// Package records checks what a store knows of the work of guard.Once, as package model does the
// lock: its tests explore every state that a few calls for one key can get into, up to a bound, and find
// none in which
//
//   - a caller gets a result that no owner reported,
//   - at most once, work begins although the outcome of earlier work is unknown,
//   - work begins although Redis knew a result, or beside an owner that holds the lock,
//   - an outcome changes the record of another owner,
//   - work begins after an owner that never finished, and does not learn of it, also if it asks twice,
//   - a claim with another input begins, or gets a result,
//   - a claim is refused for work that never began, or that still runs under its lock,
//   - Forget deletes the record of an owner that holds the lock, or another record than the named one,
//   - a caller was told that its work is done, and the next one runs it again, or is refused,
//   - at most once, an outcome is lost although no owner began since,
//   - a claim never gets anywhere, though from now on nothing fails.
//
// Work whose failure Redis knows does not count, nor does work whose record was forgotten, expired or
// was lost with all data. Then the tests break the rules one by one, and see a property break for each.
//
//	go test -v -run TestBrokenRules ./guard/internal/model/records
//
// # Contents
//
// Up to three calls, at most once or not, of two inputs, that wait or do not. Each has an owner of its
// own. It asks, works, has a result, or a result that is too long, fails, or panics, and releases; or it gives up, and
// says that it did not run. Commands are lost, executed without an answer, arrive
// late and any number of times. A lock is lost at any time, by its expiry or a DEL: its owner need not notice, and the
// work continues. Processes crash. Redis loses the record, or all its data. A person looks at the record, and forgets it; that
// command may arrive late, and any number of times.
//
// # Left out
//
//   - What package model has: hand-over, renewals, revocation, MinHold, clocks that step back. A slow answer is the
//     same as that of an owner that loses its lock.
//   - Whose owner it was that never finished, once its successor failed. An owner that began without
//     learning of it, lost the lock, and was followed by an owner that failed is refused at most once, for
//     work that was its own. That takes two lost answers and an expiry; nothing runs twice.
//
// # The scripts themselves
//
// To Redis, the states look like some thousand calls. The tests go the shortest way to each, command by
// command, on the store of an embedded Redis with the real Lua and on the store in memory; a sample is made on a
// redis-server. Each answer has to be that of the model, and so has the rest: the record, what a
// further claim gets, and that no key is without a ttl.
package records
