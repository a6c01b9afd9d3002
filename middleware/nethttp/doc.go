// Package guardhttp locks net/http routes: while one request works on a key, another request for the same key waits, or
// is answered that the resource is busy, in whichever process it arrived.
//
//	pay := guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))
//	mux.Handle("POST /orders/{id}/pay", pay(handler))
//
// Middleware is for one route, of http.ServeMux or of any router that sets path values, as chi does. Annotate is for
// many routes of a ServeMux. Put the lock inside of authentication, rate limiting and http.TimeoutHandler, and outside
// of the transaction.
//
// # Keys
//
//	{name}, {path:name}   path value of the route, decoded
//	{header:Name}         header
//	{query:name}          query parameter
//	{cookie:name}         cookie
//	{method}              method of the request
//	{idempotency-key}     header Idempotency-Key, quoted or bare, of 1 to 255 bytes
//
// Values are escaped as in guard.JoinKey. A value that is missing, empty, not UTF-8, too long or given twice (header
// and query) is answered 400; so is a path value if the URL does not say whether it was decoded. Two placeholders need
// a ':' between them. Join a value that clients choose freely, such as a header, with their tenant, for example.
//
// # Answers
//
// Where the handler does not run, and where its lock was lost before anything was sent, the answer is problem+json (RFC
// 9457) with a code and Cache-Control: no-store. The error, the key and the holder are never part of it.
//
//	lock_busy               409, Retry-After   busy, not waited for
//	lock_wait_timeout       409, Retry-After   busy for as long as Wait says
//	lock_held_over          409, Retry-After   only the guard.MinHold of work that is done keeps the key
//	lock_full               429, Retry-After   as many callers work as guard.Limit allows
//	deadline_exceeded       503, Retry-After   the request's deadline ended the wait
//	lock_store_unavailable  503, Retry-After   Redis did not answer, or refused
//	shutting_down           503, Retry-After   the Guard is closed
//	lock_lost               500                lost under the handler, nothing sent yet; also lock_max_hold and
//	                                           lock_revoked
//	lock_key_invalid        400                the request lacks a value of the key
//	lock_key_invalid        500                the template does not fit the route
//	no_guard                500                there is no Guard
//	option_invalid          500                what guard.MetadataFunc returned is out of bounds, or
//	                                           the key is held with guard.Limit or
//	                                           guard.Shared, and wanted more strictly
//	                        499, no body       the client is gone
//
// With Rule.Once, these come instead of those of a busy lock, and besides:
//
//	idempotency_in_progress      409, Retry-After   the first request is being served
//	idempotency_key_reused       422                the first request was another one
//	idempotency_outcome_unknown  409                it never finished, and guard.AtMostOnce is set
//	idempotency_record_damaged   409                its record in Redis is damaged
//	idempotency_result_not_kept  409                it was served, its answer was not kept
//	body_too_large               413                the body has more than 1 MiB
//	body_unreadable              400                the body could not be read
//
// A 500 that is a fault of the program is logged by slog.Default(), once for each route and fault. So is each loss that
// came after a success had begun. With Rule.OnError nothing is logged: the error goes there, and the LostError in it
// has the key.
//
// # Handlers
//
// The request's context descends from the lease's: it ends when the lock is lost, with a *guard.LostError as its cause,
// and carries the Guard, so that guard.WithLock takes further locks. Panics pass and release the lock.
//
// A lost lock is never a success. The handler's status is held back until a body follows, it is flushed, or the handler
// has returned. If the lock is lost by then, the client gets lock_lost, without any header of the handler, and Write
// returns the *guard.LostError. An error status of the handler is sent all the same. The ResponseWriter can do what the
// original can, such as http.Flusher and http.Hijacker, except that http.MaxBytesReader, given this ResponseWriter,
// does not have net/http close the connection after the answer. Limit bodies outside of the lock.
package guardhttp
