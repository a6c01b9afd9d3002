// Package guardriver locks River jobs: while one job works on a key, another one for the same key
// waits or is snoozed, in whichever process it runs.
//
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{guardriver.Annotate(g, guardriver.Jobs{
//			"charge_order": guardriver.Lock("order:{order_id}"),
//			"export":       guardriver.Lock("export:{tenant}", guard.Limit(3)),
//		})},
//		…
//	})
//
// locks jobs by a table of their kinds. The second row has three exports run at a time for each
// tenant, whichever process works on them. Middleware locks all jobs of a client or, from the
// method Middleware of a worker, all jobs of that worker.
//
// The locks are in Redis, and the jobs in PostgreSQL. Nothing of River's is in Redis.
//
// # Keys
//
// A key is derived by a template or by any function of the job. A template is text with
// placeholders in braces:
//
//	{field}, {a.b}   field of the job's arguments, also of an object in them
//	{metadata:name}  field of the job's metadata
//	{job:kind}       kind of the job
//	{job:id}         ID of the job, the same for all its attempts
//	{job:queue}      queue that the job came from
//
// Fields may be strings, integers (of any size) and bools; an object, an array, null, a fraction or
// an exponent is an error. A field is found as encoding/json finds it for a struct: {order_id} is
// also ORDER_ID, and both in one job are an error. Values are escaped as in guard.JoinKey. A
// missing, empty or unusable value, and values that make the key longer than guard.MaxKeyLength,
// are a *guard.KeyError in a river.JobCancel, since bad arguments stay bad: the job is cancelled,
// and its error says why. Two placeholders need a ':' between them, or different values could make
// one key. Arguments that a plugin encrypted have no fields: lock those jobs by metadata.
//
// # When the lock is busy
//
// A busy lock is waited for, by default for 1 second; guard.Wait and guard.NoWait change that. A
// wait occupies one of the queue's workers. It is no part of the job's timeout, which begins after
// it. Then the job is snoozed until about when the lock should be free, but for a second at least.
// A snooze uses up no attempt; River counts them in the job's metadata. Rule.BusyStrategy has the job
// completed or cancelled instead.
//
// Redis being down and a closed Guard snooze a job, too, and so does an error of a lock that the
// worker takes by itself, if it returns it. A job may be snoozed for ever: nothing but its
// cancellation, or the lock, ends that.
//
// # Workers
//
// The worker's context descends from the lease's: it ends when the lock is lost, with a
// *guard.LostError as its cause, and carries the Guard, so that guard.WithLock takes further locks.
// A worker that returns nil after its lock was lost is a LostError: an attempt is used up, and the
// job runs again. A job that the worker itself completed, with river.JobCompleteTx, stays complete:
// in that transaction, check the fence of the lock (guard.Fence) against the row that you write.
//
// All other errors of the worker are returned unchanged.
//
// River rescues a job that has run for an hour longer than its timeout, by running it again. The
// lock is renewed until the worker has really returned, so that the next attempt is not beside
// it. guard.MaxHold caps that for workers that may hang.
//
// # Shutting down
//
// Stop the River client before the Guard. When the process is killed under a worker, its lock is
// free after the ttl.
package guardriver
