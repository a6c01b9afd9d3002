// Package guardwatermill locks watermill messages: while the handler of one message works on a key, another message of that key
// waits, in whichever process it is handled.
//
//	router.AddMiddleware(guardwatermill.Middleware(g, guardwatermill.Lock("order:{order_id}")))
//
// locks all messages of a router or, by the method AddMiddleware of a handler, of that handler. Annotate has a table of the
// router's handlers. docs/guides/watermill.md says how watermill reacts in each case.
//
// # Keys
//
//	{field}, {a.b}  field of the JSON payload, also of an object in it
//	{header:name}   metadata of the message; case matters
//	{task:kind}     metadata "name", which watermill's package cqrs writes, or else the topic
//	{task:id}       UUID of the message, the same each time that it is delivered
//	{task:queue}    topic that the router's handler subscribes to
//
// guardasynq and guardriver have the same words. docs/guides/asynq.md says how fields are read. A missing or unusable value is a
// *guard.KeyError. Such a message stays bad, and watermill delivers it for ever, like a message that Rule.Once refuses or GiveUp
// ends. Put those messages aside, and only those, with a poison queue that is added before the locks:
//
//	middleware.PoisonQueueWithFilter(publisher, "poison", guardwatermill.GivenUp)
//
// # When the lock is busy
//
// The middleware waits for a busy lock, by default for 20 seconds; guard.Wait and guard.NoWait change that. The wait occupies the
// subscriber. Then the middleware returns a *guard.BusyError, and the message is delivered again. Rule.OnBusy acknowledges it or
// gives it up instead. Some subscribers, such as redisstream's, deliver a message again at once: so the middleware returns the
// error of a busy lock, of Redis being down or of a closed Guard a second after the message came, or later.
//
// Redisstream delivers a message to a second consumer if it was not acknowledged for a minute (SubscriberConfig.MaxIdleTime),
// counted from the first delivery. Both consumers then handle it, one after the other. Keep the wait and the work together
// below MaxIdleTime, or set that higher.
//
// # Handlers
//
// The context of the message descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause,
// and carries the Guard. If a handler returns no error after its lock was lost, the error is the LostError: its messages are not
// published, and the message is delivered again. The handler's own error is returned unchanged. Watermill publishes the
// messages that a handler returns after the lock is free: if their order matters, publish them in the handler.
//
// middleware.Timeout belongs outside of the lock, where it bounds the wait, too. With middleware.Retry outside of it, each try
// locks anew. Close the router before the Guard.
package guardwatermill
