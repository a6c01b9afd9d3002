// Package guardecho locks routes of echo v4: while one request works on a key, another
// one for the same key waits or is told that the resource is busy, in whichever process
// it arrived.
//
//	e.POST("/orders/:id/pay", pay, guardecho.Middleware(g, guardecho.Lock("order:{id}")))
//
// Annotate does so for many routes at once. Put the lock inside of authentication and rate
// limiting, or strangers hold your locks, and outside of the transaction, or the lock is
// free before the commit.
//
// Echo v4 gets bug fixes until 2026-12-31 and security fixes until 2027-12-31;
// middleware/echov5 is the same for echo v5.
//
// Keys, waits, answers and what is logged are those of guardhttp, whose package comment has
// them: the same URL gives the same key there and here. {name} is a path parameter, decoded
// as http.ServeMux does, which echo itself does not, and {*} is the wildcard.
//
// On a group or on the whole Echo, requests that no route matches, or not by their
// method, pass without a lock where the key needs a path parameter. With Echo.Pre there
// is no route yet: such a key is answered 500 for every route.
//
// # Errors
//
// Errors are returned, never written: as a bare *echo.HTTPError with guard's error inside, so
// that errors.As finds it, and a problem+json body (RFC 9457) as its Message, which echo's
// default HTTPErrorHandler sends as it is. Retry-After and Cache-Control are set on the
// response. The error of an own KeyFunc is answered with its own status if it has one; what
// the Message of an *echo.HTTPError says, the client is told, and what a method
// Detail() string says beside StatusCode.
//
// With Rule.Once, an error that the handler returns is not kept, whatever its status: an
// answer that is to be kept, the handler sends itself.
//
// # Handlers
//
// The error of the handler is returned unchanged, unless its lock was lost: a loss is told
// first, whatever the handler returned, and whether or not it heeded its context. The status
// of a handler is held back as in guardhttp. The context of c.Request() descends from the
// lease's: it ends when the lock is lost, with a *guard.LostError as its cause, and carries
// the Guard, so that guard.WithLock takes further locks. After the handler c.Request() is
// what it was before. Panics pass untouched and release the lock.
package guardecho
