// Package cohort is one process's side of waiting: the callers that want one key stand in a
// queue in memory, first come, first served, and one claim waits in the store for all of them.
//
// # What it does
//
// A [Table] has a cohort for each key. The first caller of a cohort sends its claim itself.
// If the key is busy, the claim enters the store's queue, which is ordered by the store's time
// of arrival. The claim then runs on a goroutine of its own, while callers wait. A
// grant goes to the first in the cohort's queue, whichever caller began the claim. An exclusive lock
// has room for one: kinds of locks differ by how many grants and claims a cohort has room for,
// and by how many callers a grant serves.
//
// A release grants the lock to the first in the store's queue, in the same step. A message on the
// process's one subscription then wakes that claim. A message is only a hint: a hold begins when the
// store confirmed it. A grant that is not confirmed within 2 s passes to the next in the queue.
//
// Within a process the lock passes from caller to caller without the store (hand-over), for as
// long as Config.Handover says after it was granted. Then it is released, and the cohort claims it
// again, at the end of the queue, so that no process starves another.
//
// # Limits and readers
//
// Callers with the same limit and TTL share their claims and grants. With a limit of n, a
// cohort has up to n grants, each of which passes from caller to caller within the window. It
// has no more claims in the store than may be granted to it. Readers have one claim. All readers
// that wait when its grant comes hold it, and those that come within the window after it: a claim of
// another process is delayed by the window and the longest read. Later readers claim again, at the end
// of the queue. The last reader releases the grant. A reader that leaves before asks the store
// whether the grant was held to the end, so that no loss is silent. Each is notified of a loss.
//
// # When no message comes
//
// Nothing polls to get its turn. The first two claims of a queue ask each second, the
// next six every 3 to 4, all others every 10 to 14 and once when the holder's ttl should
// have passed, in case that a message, a holder or the store's memory was lost. A claim that did not
// ask for 25 s is skipped.
//
// # After a caller has left
//
// A caller leaves at once, unless a command of its own is on its way. What its claim took, or may still take, is released asynchronously: by a
// release, and by a tombstone where a command may still be on its way. A grant that comes too late to be used is
// released, too, and the claim starts over under a new owner. A grant that was lost is
// abandoned: callers in the queue claim again, and do not wait for its release.
//
// # The order of locks
//
// A goroutine with one of these mutexes may take those after it, and none before it:
//
//  1. the mutex of a [watchdog.Holder], such as that of package guard's hold;
//  2. Table.mu: the map, each cohort in it with its queue, and the callers of each grant;
//  3. Watchdog.mu: deadlines, and the holders of each grant;
//  4. notifier.mu: the claims that messages are for;
//  5. the mutexes of a task.Group, and of the function Awake.
//
// The watchdog calls a watchdog.Holder with none of them, and nothing calls the store with one. The fields of a claim belong
// to its goroutine, those of a waiter to its caller while it is not in the queue.
//
// # What it relies on, and what it never does
//
// The package relies on the store to say which owner holds a key, on package retry to send a command until it is
// answered, and on package watchdog for how long a grant is certain. It never calls a key free or
// taken by itself, never hands over a grant that is not certain, never reads a clock but this
// process's, and knows nothing of leases, options or observers.
package cohort
