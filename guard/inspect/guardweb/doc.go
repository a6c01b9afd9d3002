// Package guardweb is a page that shows locks: who holds them, which processes wait, and what guard.Once
// recorded of a key, never its result. Users with the right to act revoke and break holds there, and forget records.
//
//	page := guardweb.Handler(inspect.New(rdb),
//		guardweb.Leases(g),
//		guardweb.Authorize(func(r *http.Request) guardweb.Role {
//			if isOperator(r) {
//				return guardweb.Act
//			}
//			return guardweb.None
//		}))
//	mux.Handle("/locks/", page)
//
// It works under any prefix, stripped or not, and loads nothing from other hosts. Without JavaScript the page does
// not refresh itself, and its times are in UTC; everything else works.
//
// [Authorize] is required, unless the page is [ReadOnly]. Keys and metadata may be personal data: put
// your sign-in in front of the page, and see [MaskKeys].
//
// # What it costs
//
// The list is made by SCAN over all keys of the Redis. There is one list for all viewers and all
// searches. Redis works for it at most a twentieth of the time, whatever is searched, and whether the list
// succeeds or fails. It has 10,000 locks, and shows 1,000; it ends after 30 s. The page of one lock takes one
// script and no list. [Leases] costs Redis nothing.
//
// # Without an answer
//
// When Redis does not answer, the list is a 503 with the last list, marked as old. The page of a lock stays as it
// is in the browser, marked as old.
//
// # Requests
//
//	GET …/                  the locks that are held; ?match= is a glob of at most 512 bytes, and a whole key
//	                        leads to its lock; ?sort= is waiting (the default), held or key
//	GET …/lock?key=         one lock
//	GET …/revoke, …/break   ask for a confirmation (key, fence)
//	POST …/revoke, …/break  do it (form fields key, fence)
//	GET …/forget            ask for a confirmation to delete the record of a key (key, fence)
//	POST …/forget           do it (form fields key, fence, and state as it was shown)
//
// A POST is answered by 303 and the address of the lock, by 403 if the request comes from
// another origin or its Role is not [Act], by 404 if that hold, or that record, no longer exists, by 409
// if the work of a record is in progress, and by 503 if Redis does not answer. A field out of its bounds is a 400 that names it.
package guardweb
