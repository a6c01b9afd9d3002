// Package chaos injects faults under load and checks from outside of Redis whether the locks held.
//
// The history, the clocks and the judge are here, the rest is tests. A run starts Redis (one server, five for a quorum, with Sentinel, or a cluster), some worker
// processes (the test binary executing itself), and a proxy between each worker and each server. The workers take
// thousands of locks on a few keys: exclusively, with a MinHold, with a Limit, as readers and writers. Faults are drawn
// from a seed meanwhile. Each server goes by a wall clock of its own, which is stepped and slewed, where there is a C
// compiler: a library that is loaded ahead of libc moves it. The seed is printed, and draws the same faults again, though
// nothing makes goroutines and packets meet them at the same point.
//
// The witness keeps a history. Workers report to it by pipes, apart from Redis, when they enter, what they
// believe, and when they leave. In the end a judge looks at the history:
//
//   - holds of a key, put in the order of their fences, never overlap as far as their holders believed in them, and no
//     fence is lower than that of a hold that had begun before it was asked for. Together that is linearizability, for
//     the fences give the only order there can be;
//   - only data that Redis lost excuses an overlap, and only for the rest of the ttl. When another server is promoted,
//     that is the time from when all agreed on the one before until all agree on it, and then, with Sentinel, the seconds
//     in which each Guard has to notice: one hold may be from either. Where the two agree on it, as with CLUSTER FAILOVER,
//     and when a slot moves, nothing is lost. A clock that is set forward loses the keys that expire early;
//   - a fence falls, or comes twice, only if its clock was set back, and by no more than that; and Redis lost the last
//     one, or the process could not know that the clock had been as far: it had no such fence of the key before and, of a
//     single server, no reply since the clock was as far, except for steps smaller than its round trips. No fence is
//     further ahead of the highest clock that any server had than by the number of calls (µs), a round trip and a tenth of a
//     minute, the longest time for which a process may have no reply, and no server remembers one for longer;
//   - where several may be inside, there are never more holders than each of them tolerates, and a reader's fence lies
//     between those of the writers around it;
//   - no caller gets a lock before its MinHold has ended;
//   - a context ends when its lease does, unless its process was stopped;
//   - once the faults have ended, every worker gets every lock, and a worker that ends in good order leaves neither
//     goroutines nor keys.
//
// A lock that is handed over within its process has a fence of the time at which Redis granted it, below that of a caller
// that got it since because Redis forgot. The judge takes such a hold for as old as that.
//
// What a holder believes is what it may act upon: until its work ended, if WithLock then said that the lock was held to
// the end; else until the last instant for which the lease said afterwards that it was held. So a stopped process is no
// false alarm, and no tolerance is needed. A quarter of the calls do not wait for their release (AsyncRelease): a loss that
// only the release shows goes to observers, and the holder believed until its work ended.
package chaos
