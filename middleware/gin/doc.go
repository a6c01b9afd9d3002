// Package guardgin locks routes of gin: while one request works on a key, another one for
// the same key waits or is told that the resource is busy, in whichever process it arrived.
//
//	engine.POST("/orders/:id/pay", guardgin.Middleware(g, guardgin.Lock("order:{id}")), pay)
//
// Annotate does so for many routes at once. Put the lock inside of authentication and rate
// limiting, or strangers hold your locks, and outside of the transaction, or the lock is
// free before the commit.
//
// Keys, waits, answers and what is logged are those of guardhttp, whose package comment has
// them: the same URL gives the same key there and here. {name} is a path parameter or a
// wildcard, which has no slash in front of it here. On a group or on the whole Engine,
// requests without a route pass without a lock where the key needs a path parameter.
//
// With Rule.Once, a handler that writes nothing and adds to c.Errors has failed: its answer is
// that of a layer outside, and is not kept.
//
// # Handlers
//
// Use c.Request.Context(): it descends from the lease's, ends when the lock is lost, with a
// *guard.LostError as its cause, and carries the Guard, so that guard.WithLock takes further
// locks. The gin.Context itself knows nothing of the lock unless Engine.ContextWithFallback
// is set. After the handlers c.Request and c.Writer are what they were before. Panics pass
// untouched and release the lock.
//
// A request that is refused is aborted: the handlers behind do not run. A lost lock is never
// a success: what the handlers answer is held back until a body follows or it is flushed,
// and replaced by lock_lost if the lock is lost by then, whether or not they heed the
// context. An error status that they have written is sent all the same.
package guardgin
