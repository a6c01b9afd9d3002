// Package guardwatermill locks watermill messages: while one message works on a key, another one
// for the same key waits, in whichever process it is handled.
//
//	router.AddMiddleware(guardwatermill.Annotate(g, guardwatermill.Handlers{
//		"charge_order": guardwatermill.Lock("order:{order_id}"),
//		"export":       guardwatermill.Lock("export:{metadata:tenant}", guard.Limit(3)),
//	}))
//
// locks messages by a table of the router's handlers. Middleware locks all messages of a router, or,
// by the method AddMiddleware of a handler, of that handler.
//
// # Keys
//
// A key is derived by a template or by any function of the message. A template is text with
// placeholders in braces:
//
//	{field}, {a.b}   field of the JSON payload, also of an object in it
//	{metadata:name}  metadata of the message, in the spelling it was given
//	{message:uuid}   UUID of the message, the same each time that it is delivered
//	{message:topic}  topic that the router's handler subscribes to
//
// Fields may be strings, integers (taken as they are written, of any size) and bools; an object, an
// array, null, a fraction or an exponent is an error. A field is found as encoding/json finds it
// for a struct: {order_id} is also ORDER_ID. If the payload has both, or one twice, that is an
// error. Values are escaped as in guard.JoinKey. A missing, empty or unusable value, and values
// that make the key longer than guard.MaxKeyLength, are a *guard.KeyError. Two placeholders need a
// ':' between them, or different values could make one key.
//
// Such a message stays bad, and watermill delivers it for ever. So it does with one that Rule.Once refuses. Put
// those messages aside, and only those, with a poison queue that is added before the locks:
//
//	middleware.PoisonQueueWithFilter(publisher, "poison", func(err error) bool {
//		return errors.Is(err, guard.ErrKey) || errors.As(err, new(*guard.OnceError))
//	})
//
// # When the lock is busy
//
// A busy lock is waited for, by default for 20 seconds; guard.Wait and guard.NoWait change that. The
// wait occupies the subscriber, which gets no further message of the topic meanwhile. Then the
// error, a *guard.BusyError, is returned, so that watermill sends a Nack and the message is
// delivered again. Rule.BusyStrategy has it acknowledged instead.
//
// Some subscribers, as that of redisstream, deliver at once what was not acknowledged. So the error of
// a busy lock, of Redis being down and of a closed Guard is returned a second after the message came,
// at the soonest. They are no failures: keep middleware.Retry and middleware.PoisonQueue from
// counting them, by a filter as above.
//
// Redisstream gives a message to another consumer as well when it was not acknowledged for a minute
// (SubscriberConfig.MaxIdleTime), counted from the first delivery. Both consumers then handle it,
// but never at the same time. Keep the wait and the work together below MaxIdleTime, or set that
// higher.
//
// # Handlers
//
// The context of the message descends from the lease's: it ends when the lock is lost, with a
// *guard.LostError as its cause, and carries the Guard, so that guard.WithLock takes further locks. A
// handler that returns no error after its lock was lost is a LostError: its messages are not
// published, and the message that it handled is delivered again. A handler that calls Ack itself
// takes that from you.
//
// The handler's own error is returned unchanged. Watermill publishes the messages that a handler
// returns after the lock is free: where their order matters, publish them in the handler.
//
// middleware.Timeout belongs outside of the lock, where it bounds the wait, too. With
// middleware.Retry outside of it, each try locks anew.
//
// # Shutting down
//
// Close the router before the Guard. It waits for its handlers for RouterConfig.CloseTimeout, 30
// seconds if not set: longer than the default wait. When the process is killed under a handler, its
// lock is free after the ttl.
package guardwatermill
