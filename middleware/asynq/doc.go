// Package guardasynq locks asynq tasks: while one task works on a key, another one for
// the same key waits or comes again later, in whichever process it runs.
//
//	srv := asynq.NewServer(redisOpt, guardasynq.Configure(asynq.Config{}))
//	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
//
// locks all tasks of a mux. Middleware wraps a single handler just as well, and a table
// says it for tasks of different kinds in one place:
//
//	tasks.Use(guardasynq.Annotate(g, guardasynq.Tasks{
//		"order:":        guardasynq.Lock("order:{order_id}"),
//		"report:build":  guardasynq.Lock("report:{day}", guard.NoWait()).BusyStrategy(guardasynq.SkipRun),
//	}))
//
// # Keys
//
// A key is derived by a template or by any function of the task. A template is text with
// placeholders in braces:
//
//	{field}, {a.b}   field of the JSON payload, also of an object in it
//	{header:name}    header of the task, in the spelling it was given
//	{task:type}      type of the task
//	{task:id}        ID of the task, the same for all its runs
//	{task:queue}     queue that the task came from
//
// Fields may be strings, integers (taken as they are written, of any size) and bools; an
// object, an array, null, a fraction or an exponent is an error. A field is found as
// encoding/json finds it for a struct: {order_id} is also ORDER_ID. If the payload has both,
// or one twice, that is an error, or the handler could work on another order than the locked
// one. Values are escaped as in guard.JoinKey. A missing, empty or unusable value, and
// values that make the key longer than guard.MaxKeyLength, are a *guard.KeyError, returned with
// asynq.SkipRetry, since a bad payload stays bad: the task is archived. Two placeholders
// need a ':' between them, or different values could make one key.
//
// # When the lock is busy
//
// A busy lock is waited for, by default for 1 second; guard.Wait and guard.NoWait change
// that. A wait occupies one of the server's workers, and it is
// part of the task's timeout: it ends a little before the task's deadline, by a tenth of
// the time left or a second. Then the error, a *guard.BusyError, is returned and asynq
// runs the task again later. Rule.BusyStrategy has it drop or archive the task instead.
//
// Whether a run counts as a failure is for the server to say, not for a middleware:
// without Configure (or IsFailure and RetryDelay) a busy lock uses up a retry like any
// other error and waits as long. With it, what kept the handler from running (busy, Redis
// down, Guard closed) uses up none, and the task comes back about when the lock should be
// free, but not before asynq looks (Config.DelayedTaskCheckInterval, 5 s by default).
// Such a task comes back for ever, unless it was given an asynq.Deadline: after that,
// asynq counts its runs as failures and archives it.
//
// A task that has no retry left is archived by asynq on any error. For it, the middleware
// does not fail fast, but tries until shortly before the task's deadline (30 minutes from
// its start, if the task sets none), whatever wait was set. It holds a worker meanwhile,
// and what the wait leaves of the timeout is all that the handler gets. If the lock stays
// busy until then, the task is archived, and its error says so.
//
// Asynq stores the texts of errors and shows them to everybody. Those of guard name the
// lock's Name, and never a key, an owner or a holder.
//
// # Handlers
//
// The error of the handler is returned unchanged. The handler's context descends from
// the lease's: it ends when the lock is lost, with a *guard.LostError as its cause, and
// carries the Guard, so that guard.WithLock takes further locks. A handler that returns
// nil after its lock was lost is a LostError: counted, and the task runs again.
//
// Asynq does not wait for a handler whose context is over, because of the task's timeout,
// a cancellation or a shutdown, and may run the task again. The lock does wait: it is
// renewed until the handler has really returned, so that the next run is not beside it.
// guard.MaxHold caps that for handlers that may hang.
//
// # Shutting down
//
// Shut down the asynq server before the Guard. When the process is killed under a
// handler, its lock is free after the ttl. Asynq itself finds out in a minute or two, and
// runs the task again if it has a retry left.
package guardasynq
