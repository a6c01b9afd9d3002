// Package records checks what a store knows of the work of guard.Once, as package model does the
// lock: its tests explore every state that a few calls for one key can get into, up to a bound, and find
// none in which
//
//   - somebody gets a result that no owner reported,
//   - at most once, work begins although nobody knows how earlier work ended,
//   - work begins although Redis knew a result, or beside an owner that holds the lock,
//   - an outcome changes the record of another owner,
//   - work begins after an owner that never finished, and does not learn of it, also if it asks twice,
//   - a claim with another input begins, or gets a result,
//   - a claim is refused for work that never began, or that still runs under its lock,
//   - Forget deletes the record of an owner that holds the lock, or another one than the one that it names,
//   - a caller was told that its work is done, and the next one runs it again, or is refused,
//   - at most once, an outcome is lost although nobody began since,
//   - somebody never gets anywhere, though from now on nothing fails.
//
// Work whose failure Redis knows does not count, nor does work whose record was forgotten, expired or
// was lost with all data. Then the tests break the rules one by one, and see a property break for each.
//
//	go test -v -run TestBrokenRules ./guard/internal/model/records
//
// # What is in it
//
// Up to three calls, at most once or not, of two inputs, that wait or do not. Each has an owner of its
// own. It asks, works, has a result, one that is too long, fails, or panics, and releases; or it gives up, and
// says that it did not run. Further callers of a process wait for the same claim. The one for whom it was made
// may leave, and the grant serves whoever is in front by then. Commands are lost, executed without an answer, arrive late and any
// number of times. A lock is lost at any time, by its expiry or a DEL: nobody need know, and the work
// goes on. Processes crash. Redis loses the record, or all its data. A person looks at the record, and forgets it; that
// command may arrive late, and any number of times.
//
// # What is not
//
//   - What package model has: hand-over, renewals, revocation, MinHold, clocks that step back. An answer that takes its time is that of an owner that
//     loses its lock.
//   - Whose owner it was that never finished, once its successor failed. An owner that began without
//     learning of it, lost the lock, and was followed by one that failed is refused at most once, for
//     work that was its own. That takes two lost answers and an expiry; nothing runs twice.
//
// # The scripts themselves
//
// To Redis, the states look like some thousand calls. The tests go the shortest way to each, command by
// command, on an embedded Redis with the real Lua and on the store in memory; a sample is made on a
// redis-server. Each answer has to be that of the model, and so has what is left: the record, what a
// further claim gets, and that no key is without a ttl.
package records
