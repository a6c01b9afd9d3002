// Package guardecho locks routes of echo v5: while one request works on a key, another request for the same key waits,
// or is answered that the resource is busy, in whichever process it arrived.
//
//	e.POST("/orders/:id/pay", pay, guardecho.Middleware(g, guardecho.Lock("order:{id}")))
//
// Package guardhttp describes keys, waits, answers and logs: the same URL gives the same key there and here. {name} is
// a path parameter, decoded once, which echo itself does not do, and {*} is the wildcard. Annotate locks many routes at
// once.
//
// On a group or on the whole Echo, requests without a route, or with another method, pass without a lock where the key
// needs a path parameter. Echo.Pre runs before the router: such a key is answered 500 there.
//
// A refusal is returned as an error with guard's error inside, and with a problem+json body, which echo's default
// HTTPErrorHandler sends. The handler's own error is returned unchanged, unless its lock was lost: the loss comes
// first. With Rule.Once, the Echo's HTTPErrorHandler answers a returned *echo.HTTPError below 500 under the lock, so
// that the answer is kept, and the middleware returns nil. After any other error the next request runs the handler
// again, unless the handler had answered. After the handler, c.Request() is what it was before.
package guardecho
