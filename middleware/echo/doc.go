// Package guardecho locks routes of echo v4: while one request works on a key, another
// one for the same key waits or is told that the resource is busy, in whichever process
// it arrived.
//
//	e.POST("/orders/:id/pay", pay, guardecho.Middleware(g, guardecho.Key("order:{id}")))
//
// Annotate does so for many routes at once. Put the lock inside of authentication and rate
// limiting, or strangers hold your locks, and outside of the transaction, or the lock is
// free before the commit.
//
// Echo v4 gets bug fixes until 2026-12-31 and security fixes until 2027-12-31;
// middleware/echov5 is the same for echo v5.
//
// # Keys
//
// A key is derived by a template or by any function of the echo.Context. A template is
// text with placeholders in braces:
//
//	{name}, {path:name}   path parameter of the route, decoded; {*} is the wildcard
//	{header:Name}         header
//	{query:name}          query parameter
//	{cookie:name}         cookie
//	{host}                host of the request, in lower case and without port
//	{method}              method of the request
//
// They are those of guardhttp, and the same URL gives the same key there and here: path
// parameters are decoded as http.ServeMux does, which echo itself does not, so that
// /orders/%37 and /orders/7 are one order. Values are escaped as in guard.JoinKey. A
// value that is missing, empty, not UTF-8, or given twice (header and query), and values
// that make the key longer than guard.MaxKeyLength, are answered 400; a path parameter
// that the route does not have, 500. One host has one spelling, and so has an IP address;
// what is neither a name in ASCII nor an address without a zone is answered 400. Two
// placeholders need a ':' between them, or different values could make one key. Do not use a value that clients
// choose freely, such as a header, as the whole key: join it with one that they cannot
// choose, the tenant for example.
//
// On a group or on the whole Echo, requests that no route matches, or not by their
// method, pass without a lock where the key needs a path parameter. With Echo.Pre there
// is no route yet: such a key is answered 500 for every route.
//
// # Waiting
//
// A busy lock is waited for, by default for 2 seconds; With(guard.Wait(d)) and
// With(guard.NoWait()) change that. Keep waits short: net/http does not notice a client
// that left before its body was read, and the wait counts against Server.WriteTimeout.
//
// # Answers
//
// Errors are returned, never written: as a bare *echo.HTTPError with guard's error
// inside, so that errors.As finds it, and a problem+json body (RFC 9457) as its Message,
// which echo's default HTTPErrorHandler sends as it is. Retry-After and Cache-Control
// are set on the response. The error's text, the key and the holder are never part of an
// answer. The statuses and codes are those of guardhttp:
//
//	lock_busy               409, Retry-After   busy, not waited for
//	lock_wait_timeout       409, Retry-After   busy for as long as Wait says
//	deadline_exceeded       503, Retry-After   the request's deadline ended the wait
//	lock_store_unavailable  503, Retry-After   Redis did not answer, or refused
//	shutting_down           503, Retry-After   the Guard is closed
//	lock_lost               500                lost under a handler without an error
//	lock_key_invalid        400                the request lacks a value of the key
//	lock_key_invalid        500                the template does not fit the route
//	no_guard                500                there is no Guard
//	option_invalid          500                an option that depends on the request, as
//	                                           guard.MetadataFunc does, is out of bounds
//	lock_upgrade            500                the key is held with guard.Limit or
//	                                           guard.Shared, and wanted more strictly
//	                        499, no body       the client is gone
//
// The error of an own KeyFunc is answered with its own status if it is, or wraps, an
// *echo.HTTPError or has a method StatusCode() int, and else 500. What the Message of an
// *echo.HTTPError says, the client is told, and what a method Detail() string says beside
// StatusCode. BusyStatus replaces the 409, OnError the whole answer.
//
// # What is logged
//
// A 500 that the program is to blame for, and no request, is logged by slog.Default(), once
// for each route and fault: there is no Guard, the template does not fit the route, a key
// function failed without a status of its own, or an option is out of its bounds. Nothing
// else is logged. With OnError nothing is: the error goes there.
//
// # Handlers
//
// The error of the handler is returned unchanged. The context of c.Request() descends
// from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause,
// and carries the Guard, so that guard.WithLock takes further locks. After the handler
// c.Request() is what it was before. Panics pass untouched and release the lock.
package guardecho
