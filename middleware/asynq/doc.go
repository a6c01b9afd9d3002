// Package guardasynq locks asynq tasks: while one task works on a key, another task of that key waits or comes again later,
// in whichever process it runs.
//
//	srv := asynq.NewServer(redisOpt, guardasynq.Configure(asynq.Config{}))
//	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
//
// locks all tasks of a mux. Middleware wraps a single handler just as well, and Annotate has a table for tasks of different
// kinds. docs/guides/asynq.md says how asynq reacts in each case.
//
// # Keys
//
//	{field}, {a.b}  field of the JSON payload, also of an object in it
//	{header:name}   header of the task; case matters
//	{task:kind}     type of the task
//	{task:id}       ID of the task, the same for all its runs
//	{task:queue}    queue that the task came from
//
// guardriver and guardwatermill have the same words. docs/guides/asynq.md says how fields are read. A missing or unusable
// value is a *guard.KeyError with asynq.SkipRetry: the task is archived, since a bad payload stays bad.
//
// # When the lock is busy
//
// The middleware waits for a busy lock, by default for 1 second; guard.Wait and guard.NoWait change that. A wait occupies one
// of the server's workers. It ends before the task's deadline, by a tenth of the time left or a second. Then the middleware
// returns a *guard.BusyError, and asynq runs the task again later. Rule.OnBusy drops or archives the task instead.
//
// With Configure, a run that did not reach the handler (lock busy, Redis down, Guard closed) uses up no retry. The task comes
// back about when the lock should be free, but not before asynq looks (Config.DelayedTaskCheckInterval, 5 s by default). It
// comes back for ever, unless it has an asynq.Deadline: after that, asynq counts its runs as failures and archives it.
//
// Asynq archives a task without a retry left on any error. So for such a task the middleware tries until shortly before its
// deadline, whatever the wait. The handler gets the rest of the timeout.
//
// # Handlers
//
// The handler's context descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause, and
// carries the Guard. The handler's error is returned unchanged. If the handler returns nil after its lock was lost, the error
// is the LostError: asynq counts it and runs the task again. Asynq does not wait for a handler whose context has ended. The
// lock does: it is renewed until the handler has returned, or for guard.MaxHold. Shut down the asynq server before the Guard.
package guardasynq
