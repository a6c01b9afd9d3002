// Package guardasynq locks asynq tasks: while one task works on a key, another one for the same key waits or comes again later,
// in whichever process it runs.
//
//	srv := asynq.NewServer(redisOpt, guardasynq.Configure(asynq.Config{}))
//	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
//
// locks all tasks of a mux. Middleware wraps a single handler just as well, and Annotate has a table for tasks of different
// kinds. docs/guides/asynq.md says what asynq does in each case.
//
// # Keys
//
//	{field}, {a.b}  field of the JSON payload, also of an object in it
//	{header:name}   header of the task, in the spelling it was given
//	{task:kind}     type of the task
//	{task:id}       ID of the task, the same for all its runs
//	{task:queue}    queue that the task came from
//
// The words are those of guardriver and guardwatermill, too. Fields are read as docs/guides/asynq.md has it. A missing or unusable
// value is a *guard.KeyError with asynq.SkipRetry, since a bad payload stays bad: the task is archived.
//
// # When the lock is busy
//
// A busy lock is waited for, by default for 1 second; guard.Wait and guard.NoWait change that. A wait occupies one of the
// server's workers, and is part of the task's timeout: it ends before the task's deadline, by a tenth of the time left or a
// second. Then the error, a *guard.BusyError, is returned and asynq runs the task again later. Rule.OnBusy has it drop or
// archive the task.
//
// With Configure, what kept the handler from running (busy, Redis down, Guard closed) uses up no retry, and the task comes back
// about when the lock should be free, but not before asynq looks (Config.DelayedTaskCheckInterval, 5 s by default). Such a task
// comes back for ever, unless it was given an asynq.Deadline: after that, asynq counts its runs as failures and archives it.
// Without Configure, a busy lock uses up a retry like any other error.
//
// A task that has no retry left is archived by asynq on any error. So the middleware tries until shortly before its deadline,
// whatever wait was set. It holds a worker meanwhile, and what the wait leaves of the timeout is all that the handler gets.
//
// # Handlers
//
// The handler's context descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause, and
// carries the Guard. The handler's error is returned unchanged; one that returns nil after its lock was lost is a LostError:
// counted, and the task runs again. Asynq does not wait for a handler whose context has ended, and may run the task again. The
// lock does wait: it is renewed until the handler has returned. guard.MaxHold caps that for handlers that may hang. Shut down
// the asynq server before the Guard.
package guardasynq
