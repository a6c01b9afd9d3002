// Package guardriver locks River jobs: while one job works on a key, another job of that key waits or is snoozed, in whichever
// process it runs.
//
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{guardriver.Middleware(g, guardriver.Lock("order:{order_id}"))},
//		…
//	})
//
// Middleware locks all jobs of a client or, from the method Middleware of a worker, all jobs of that worker. Annotate has a
// table for their kinds. docs/guides/river.md says how River reacts in each case. The locks are in Redis, the jobs in PostgreSQL.
//
// # Keys
//
//	{field}, {a.b}  field of the job's arguments, also of an object in them
//	{header:name}   field of the job's metadata
//	{task:kind}     kind of the job
//	{task:id}       ID of the job, the same for all its attempts
//	{task:queue}    queue that the job came from
//
// guardasynq and guardwatermill have the same words. docs/guides/asynq.md says how fields are read. A missing or unusable value is
// a *guard.KeyError in a river.JobCancel, since bad arguments stay bad. Arguments that a plugin encrypted have no fields: lock
// those jobs by metadata.
//
// # When the lock is busy
//
// The middleware waits for a busy lock, by default for 1 second; guard.Wait and guard.NoWait change that. The wait occupies one
// of the queue's workers, and is no part of the job's timeout. Then the job is snoozed until about when the lock should be
// free, for a second at least. A snooze uses up no attempt. Redis being down, a closed Guard, and a busy lock that the worker
// wanted snooze the job, too. A job may be snoozed for ever. Rule.OnBusy completes or cancels it instead.
//
// # Workers
//
// The worker's context descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause, and
// carries the Guard. If a worker returns nil after its lock was lost, the error is the LostError: an attempt is used up, and the
// job runs again. A job that the worker completed with river.JobCompleteTx stays complete: in that transaction, check the
// fence of the lock (guard.Fence) against the row that you write. The worker's own error is returned unchanged.
//
// River runs a job again that has run for an hour longer than its timeout. The lock is renewed until the worker has returned, or
// for guard.MaxHold. Stop the River client before the Guard.
package guardriver
