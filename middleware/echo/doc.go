// Package guardecho locks routes of echo v4: while one request works on a key, another
// one for the same key waits, or gets the answer that the resource is busy, in whichever process
// it arrived.
//
//	e.POST("/orders/:id/pay", pay, guardecho.Middleware(g, guardecho.Lock("order:{id}")))
//
// Annotate does so for many routes at once. Where to put the lock, keys, waits, answers and what
// is logged are as in guardhttp, whose package comment has them: the same URL gives the same key
// there and here. {name} is a path parameter, decoded as http.ServeMux does, which echo itself
// does not, and {*} is the wildcard.
//
// Echo v4 gets bug fixes until 2026-12-31 and security fixes until 2027-12-31;
// middleware/echov5 is the same for echo v5.
//
// On a group or on the whole Echo, requests that no route matches, or not by their
// method, pass without a lock where the key needs a path parameter. With Echo.Pre there
// is no route yet: such a key is answered 500 for every route.
//
// Errors are returned, never written: as a bare *echo.HTTPError with guard's error inside, and a
// problem+json body as its Message, which echo's default HTTPErrorHandler sends as it is. The
// error of an own KeyFunc is answered with its own status, and the client sees what the Message
// of an *echo.HTTPError or the method Detail() string says.
//
// The error of the handler is returned unchanged, unless its lock was lost: the loss comes first.
// With Rule.Once, the Echo's HTTPErrorHandler answers a returned *echo.HTTPError below 500 under the lock, so that the answer is
// kept, and the middleware returns nil. Any other error has the next request run the handler, unless it had answered before. After the handler c.Request() is what it
// was before.
package guardecho
