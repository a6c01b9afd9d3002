// Package guardwatermill locks watermill messages: while one message works on a key, another one for the same key waits, in
// whichever process it is handled.
//
//	router.AddMiddleware(guardwatermill.Middleware(g, guardwatermill.Lock("order:{order_id}")))
//
// locks all messages of a router or, by the method AddMiddleware of a handler, of that handler. Annotate has a table of the
// router's handlers. docs/guides/watermill.md says what watermill does in each case.
//
// # Keys
//
//	{field}, {a.b}  field of the JSON payload, also of an object in it
//	{header:name}   metadata of the message, in the spelling it was given
//	{task:kind}     metadata "name", which watermill's package cqrs writes, or else the topic
//	{task:id}       UUID of the message, the same each time that it is delivered
//	{task:queue}    topic that the router's handler subscribes to
//
// The words are those of guardasynq and guardriver, too. Fields are read as docs/guides/asynq.md has it. A missing or unusable value
// is a *guard.KeyError. Such a message stays bad, and watermill delivers it for ever. So it does with one that Rule.Once
// refuses, and one that GiveUp ends. Put those messages aside, and only those, with a poison queue that is added before the
// locks:
//
//	middleware.PoisonQueueWithFilter(publisher, "poison", guardwatermill.GivenUp)
//
// # When the lock is busy
//
// A busy lock is waited for, by default for 20 seconds; guard.Wait and guard.NoWait change that. The wait occupies the
// subscriber. Then the error, a *guard.BusyError, is returned, so that the message is delivered again. Rule.OnBusy has it
// acknowledged or given up instead. Some subscribers, as that of redisstream, deliver at once what was not acknowledged: so
// the error of a busy lock, of Redis being down and of a closed Guard is returned a second after the message came, at the
// soonest.
//
// Redisstream gives a message to another consumer as well when it was not acknowledged for a minute
// (SubscriberConfig.MaxIdleTime), counted from the first delivery. Both then handle it, one after the other. Keep the wait and
// the work together below MaxIdleTime, or set that higher.
//
// # Handlers
//
// The context of the message descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause,
// and carries the Guard. A handler that returns no error after its lock was lost is a LostError: its messages are not
// published, and the message is delivered again. The handler's own error is returned unchanged. Watermill publishes the
// messages that a handler returns after the lock is free: where their order matters, publish them in the handler.
//
// middleware.Timeout belongs outside of the lock, where it bounds the wait, too. With middleware.Retry outside of it, each try
// locks anew. Close the router before the Guard.
package guardwatermill
