// Package guardgin locks routes of gin: while one request works on a key, another one for
// the same key waits, or gets the answer that the resource is busy, in whichever process it arrived.
//
//	engine.POST("/orders/:id/pay", guardgin.Middleware(g, guardgin.Lock("order:{id}")), pay)
//
// Annotate does so for many routes at once. Where to put the lock, keys, waits, answers and what
// is logged are as in guardhttp, whose package comment has them: the same URL gives the same key
// there and here. {name} is a path parameter or a wildcard, which has no slash in front of it
// here. On a group or on the whole Engine, requests without a route pass without a lock where the
// key needs a path parameter.
//
// In a handler, use c.Request.Context(): it descends from the lease's. The gin.Context itself knows
// nothing of the lock unless Engine.ContextWithFallback is set. A request that is refused is
// aborted. With Rule.Once, a handler that writes nothing and adds to c.Errors has failed: its
// answer is that of a layer outside, and is not kept.
//
// Engine.HandleContext in a handler gives the gin.Context its first writer again, without the lock's. Its answer is sent
// at once, also under a lost lock, which is logged. With Rule.Once, the answer is not kept, and requests that come again are refused.
package guardgin
