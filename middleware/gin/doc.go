// Package guardgin locks routes of gin: while one request works on a key, another request for the same key waits, or is
// answered that the resource is busy, in whichever process it arrived.
//
//	engine.POST("/orders/:id/pay", guardgin.Middleware(g, guardgin.Lock("order:{id}")), pay)
//
// Package guardhttp describes keys, waits, answers and logs: the same URL gives the same key there and here. {name} is
// a path parameter or a wildcard, which has no slash in front of it here. Annotate locks many routes at once. On a
// group or on the whole Engine, requests without a route pass without a lock where the key needs a path parameter.
//
// In a handler, use c.Request.Context(): it descends from the lease's. The gin.Context itself knows nothing of the lock
// unless Engine.ContextWithFallback is set. A request that is refused is aborted. With Rule.Once, a handler that writes
// nothing and adds to c.Errors has failed: a layer outside answers it, and the answer is not kept.
//
// Engine.HandleContext in a handler restores the first writer of the gin.Context, without the lock's. Its answer is
// sent at once, also under a lost lock, which is logged. With Rule.Once, that answer is not kept, and later requests
// are refused.
package guardgin
