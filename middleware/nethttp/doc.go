// Package guardhttp locks net/http routes: while one request works on a key, another
// one for the same key waits or is told that the resource is busy, in whichever process
// it arrived.
//
//	pay := guardhttp.Middleware(g, guardhttp.Key("order:{id}"))
//	mux.Handle("POST /orders/{id}/pay", pay(handler))
//
// Wrap handlers of an http.ServeMux, not the mux: path values and the route's pattern are
// there only behind it. Around a mux, and with any other router, use Annotate, which knows
// the routes by their patterns:
//
//	srv.Handler = guardhttp.Annotate(g, router, guardhttp.Routes{
//		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
//	})
//
// Routes.Middleware is the same in the form that routers take in their Use, and Check names
// rows that lock nothing.
//
// Middleware also works on a route of any other router that sets path values, as chi does.
// Some of them hand out a value as it stands in the URL, %37 for 7. Middleware decodes such
// a value, once, so that one order has one key. Where a value could be either, decoded or
// not, the answer is 400.
//
// Put the lock inside of authentication and rate limiting, or strangers hold your locks,
// and outside of the transaction, or the lock is free before the commit. Put it inside of
// http.TimeoutHandler, too: that one returns when the time is over, while the handler that
// it called still runs. Around it, the lock would be free by then, and the next request
// would run beside the first one.
//
// # Keys
//
// A key is derived by a template or by any function of the request. A template is text
// with placeholders in braces:
//
//	{name}, {path:name}   path value of the route, decoded
//	{header:Name}         header
//	{query:name}          query parameter
//	{cookie:name}         cookie
//	{host}                host of the request, in lower case and without port
//	{method}              method of the request
//
// Values are escaped as in guard.JoinKey. A value that is missing, empty, not UTF-8, or
// given twice (header and query), and values that make the key longer than
// guard.MaxKeyLength, are answered 400; a path value that the route does not have, 500.
// One host has one spelling, and so has an IP address; what is neither a name in ASCII nor
// an address without a zone is answered 400. Two placeholders need a ':' between them, or
// different values could make one key.
// Do not use a value that clients choose freely, such as a header, as the whole key: join
// it with one that they cannot choose, the tenant for example.
//
// # Waiting
//
// A busy lock is waited for, by default for 2 seconds; With(guard.Wait(d)) and
// With(guard.NoWait()) change that. Keep waits short: net/http does not notice a client
// that left before its body was read, and the wait counts against Server.WriteTimeout.
//
// # Answers
//
// Where the handler does not run, and where its lock was lost before anything was sent, the
// answer is problem+json (RFC 9457) with a code and Cache-Control: no-store. The error, the
// key and the holder are never part of it.
//
//	lock_busy               409, Retry-After   busy, not waited for
//	lock_wait_timeout       409, Retry-After   busy for as long as Wait says
//	deadline_exceeded       503, Retry-After   the request's deadline ended the wait
//	lock_store_unavailable  503, Retry-After   Redis did not answer, or refused
//	shutting_down           503, Retry-After   the Guard is closed
//	lock_lost               500                lost under the handler, nothing sent yet
//	lock_key_invalid        400                the request lacks a value of the key, or
//	                                           its path can be read in several ways
//	lock_key_invalid        500                the template does not fit the route
//	no_guard                500                there is no Guard
//	option_invalid          500                an option that depends on the request, as
//	                                           guard.MetadataFunc does, is out of bounds
//	lock_upgrade            500                the key is held with guard.Limit or
//	                                           guard.Shared, and wanted more strictly
//	                        499, no body       the client is gone
//
// The error of an own KeyFunc is answered with its StatusCode() int if it has such a
// method and that is an error status, and else 500. If it has a method Detail() string as
// well, the client is told what that says. BusyStatus replaces the 409, OnError the whole
// answer.
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
// The request's context descends from the lease's: it ends when the lock is lost, with
// a *guard.LostError as its cause, and carries the Guard, so that guard.WithLock takes
// further locks. Panics, http.ErrAbortHandler among them, pass untouched and release the
// lock.
//
// The ResponseWriter is wrapped. A status without a body is held back until a body follows,
// it is flushed, or the handler has returned. If the lock is lost by then, the client gets
// lock_lost instead, and Write returns the *guard.LostError. An error status of the
// handler's own is sent all the same. The wrapper is an http.Flusher, http.Hijacker,
// http.CloseNotifier, http.Pusher and io.ReaderFrom where the original is, and
// http.ResponseController finds what else the original can do.
package guardhttp
