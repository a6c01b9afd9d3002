// Package guardecho locks routes of echo v4: while one request works on a key, another request for the same key waits,
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
// A refusal is returned as a bare *echo.HTTPError with guard's error inside. Its Message is the problem+json body,
// which echo's default HTTPErrorHandler sends. The handler's own error is returned unchanged, unless its lock was lost:
// the loss comes first. With Rule.Once, the Echo's HTTPErrorHandler answers a returned *echo.HTTPError below 500 under
// the lock, so that the answer is kept, and the middleware returns nil. After any other error the next request runs the
// handler again, unless the handler had answered. After the handler, c.Request() is what it was before.
//
// Echo v4 gets bug fixes until 2026-12-31 and security fixes until 2027-12-31; middleware/echov5 is for echo v5.
package guardecho
