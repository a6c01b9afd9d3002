// Package guard runs work under a distributed lock on Redis: while one call works on a
// key, no other call does, in whichever process it runs.
//
//	g, err := guard.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
//	if err != nil {
//		return err
//	}
//	defer g.Close()
//	return g.WithLock(ctx, guard.Keyf("order:%d", id), func(ctx context.Context) error {
//		return charge(ctx, id) // ctx ends before another caller can get the lock
//	})
//
// [Do] is WithLock for work that has a result, [Once] keeps the result for callers that ask
// again, [Guard.WithLocks] takes several keys, [Guard.Lead] elects a leader, and [Guard.Acquire]
// is for holds that do not fit into a function. Options are given to New, as defaults, or to a
// call. The middleware packages wrap HTTP handlers, tasks and jobs.
//
// # Errors
//
//   - [ErrBusy]: another caller holds the lock, and the wait is over. The work did not run.
//   - [ErrStore]: Redis did not answer, or refused. The work did not run.
//   - [ErrLost]: the lock ended under the work. The work ran, and another caller may have begun.
//   - [ErrKey], [ErrOption], [ErrNoGuard]: the call is wrong. [ErrClosed]: the Guard is closed.
//
// # What is guaranteed
//
// While Redis keeps its data, its clock runs steadily, and the process gets to run, at most one
// call works on a key. A failover, an empty restart or a paused process can break that. Where two
// writers must never meet, compare fences at the resource: see [Fence] and package guardsql.
//
// docs/explain/guarantees.md says what holds, when a lease ends, and what does not hold. docs/reference/errors.md lists
// each error with what to do.
package guard
