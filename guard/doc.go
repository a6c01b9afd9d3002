// Package guard runs work under a distributed lock on Redis: while one call works on a
// key, no other call does, in whichever process it runs.
//
//	g, err := guard.New(rdb)
//	err = g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
//		// ctx ends before another caller can get the lock
//	})
//
// Most callers want [Guard.WithLock], or [Do] for work that has a result. [Once] also keeps the
// result, for callers that ask again.
// [Guard.Acquire] is for holds that do not fit into a function. The middleware packages
// wrap HTTP handlers and tasks. Package guardstore is for a store of your own. The examples
// show each feature. This page is the design: what you can rely on, and what not.
//
// Redis decides which owner holds a key, under which token and for how long. The process uses its own
// clock for one purpose: to bound how long it believes what Redis said last. It may give up a
// lock that Redis still keeps for it, never the other way around. Each package below says how it
// does its part; the map is in CONTRIBUTING.md.
//
// # Life of a hold
//
//	  WithLock, Acquire
//	          │
//	          ▼
//	┌───────────────────┐   wait or ctx ended,
//	│ asking            │   no answer, Guard closed
//	│ fn has not begun  ├─────────────────────────▶ fn never runs
//	└─────────┬─────────┘   (BusyError, StoreError, ErrClosed, end of ctx)
//	          │ Redis says: held
//	          ▼
//	┌───────────────────┐   last lease ended
//	│ held              ├─────────────────────────▶ released
//	│ renewed each ttl/3│
//	└─────────┬─────────┘
//	          │ deadline passed, gone from Redis,
//	          │ MaxHold reached, Guard closed
//	          ▼
//	        lost, for good (LostError; fn's context ends)
//
// A key is one hold from held to released or lost. Every call in it, the first and those
// that re-enter, has a [Lease] of its own.
//
// # Deadline and renewal
//
// A hold has a deadline: ttl - (ttl/10 + 2ms) after Redis was asked for what it confirmed last,
// which is before the key can expire, also while NTP slews a clock. At the deadline the work's
// context ends, whether or not Redis can be reached, and nothing brings the hold back. The clock
// counts on while the machine is suspended (on Linux). [Lease.Err], [Held] and re-entry look at
// the clock themselves, without waiting for a timer to have fired.
//
// Each hold is renewed every third of its ttl. So [TTL] is not how long work may take, but how
// long a key stays taken after its holder crashed. [MaxHold] caps a hold. See internal/watchdog/doc.go.
//
// # Re-entry, children and siblings
//
// Leases travel in the context. WithLock on a key that ctx holds joins the hold, after a
// round trip that proves it is still there; a counter in Redis shows how many leases are open,
// and the last one to end, in whatever order, releases. Goroutines started with the
// context of a holder are its children: they share the key and do not exclude each
// other on it. Goroutines whose common context does not hold the key are siblings, and
// exclude each other as other callers do. So work that locks its own key with another
// context, such as that of the caller or context.Background, waits for itself, until Wait
// ends. A context that outlives its work does not re-enter by accident: its lease is a
// LostError with [ErrReleased] as cause. [Detach] gives a context without leases.
//
// # Waiting
//
// Callers of one Guard that want the same key wait first come, first served, and one claim
// waits in Redis for all of them, in a queue with those of other processes. Within a Guard
// the lock passes from caller to caller without Redis, for as long as [HandoverWindow] says;
// then the next process gets it. The lock of a crashed holder is taken within its ttl and
// a second. Callers with different [TTL]s have queues of their own.
// [Wait] bounds the wait, [NoWait] tries once. How it works: internal/cohort/doc.go.
//
// # Loss and release
//
// When a hold is lost, fn's context ends with the [LostError] as its [context.Cause], and
// WithLock returns it, joined with fn's own error, even if fn succeeded. It waits for fn:
// only fn can stop its work. A release is sent even if ctx has ended. If Redis does not
// confirm it, it is repeated asynchronously until the deadline. Then the ttl frees the
// key. Such a release is no error: the work was done under the lock.
//
// # When Redis fails
//
// Every command may be executed twice with the outcome of once, so each is repeated until
// it is answered: renewals and releases until the deadline, all other commands for
// [StoreTimeout]. If Redis does not answer, the error is a [StoreError] and fn does not run,
// unless [FailOpen] says otherwise. A caller whose ctx has a deadline
// leaves at it. A caller whose ctx is canceled leaves at once while it waits; while its command is on its way, it leaves with
// the reply of Redis, or when the attempt ends, after half of StoreTimeout or 1 s. What its claim took, or may still take,
// is released asynchronously.
//
// On a cluster, a node that hangs holds up its own keys only, and locks that are held go on
// while their slot moves to another node. With Sentinel, callers outlast a failover if
// StoreTimeout is longer than it takes. See internal/retry/doc.go and internal/redisconn/doc.go.
//
// # Fencing
//
// [Fence] is a token that grows from hold to hold of one key: the server's time in
// microseconds or the last token plus one, whichever is more. So it also grows when Redis
// lost its data, as far as the servers' clocks agree. A resource that remembers the
// highest token that came with a read or a write, and refuses lower ones, is safe from every
// former holder. Package guardsql makes an SQL database such a resource.
//
// # What is guaranteed, and what is not
//
// While Redis keeps its data and its clock runs steadily, and the process gets to run, at
// most one hold of a key exists at any time: the context of its work ends before the next
// one begins. Where two writers must never meet, that is not enough:
//
//   - Redis answers before its replicas know. A failover can lose a lock that was granted,
//     and a master that comes back, or is replaced while it works, can grant one twice
//     (min-replicas-to-write shortens that). Restarting empty, FLUSHALL and eviction lose
//     locks, too (set maxmemory-policy to noeviction). A holder whose key is gone learns
//     of it when its connections break, and at the latest at its next renewal, up to a third of the ttl later.
//   - A key expires by the server's wall clock. A step forward ends leases early; one
//     back lets the key of a crashed holder last longer.
//   - A lost lock ends the context of the work. It does not stop the work. A process that is
//     paused, or gets no CPU, notices late. If it pauses between its check and its write, it writes late.
//
// Against all of them, compare fences at the resource. Two locks that are nested in different
// orders deadlock, as mutexes do, until a wait ends. Take several keys by [WithLocks], and
// bound the waits of nested calls.
//
// Package quorum is a store of an odd number of independent servers (Redlock). It survives the
// failure of any minority. Each command costs a round trip to all servers. A majority that loses
// its data within a renewal interval still loses the lock. docs/protocol.md describes the data in Redis.
package guard
