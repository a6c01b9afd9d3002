// Package guardweb is a page that shows the holders of locks, the waiting processes, and what guard.Once
// recorded of a key, never its result. It ends holds and forgets records, for users with that right.
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
// It works under any prefix, stripped or not, and needs nothing from elsewhere: no CDN, no
// build step. Without JavaScript it is all there, but does not refresh itself.
//
// Without [Authorize], everybody who reaches the page may look, and nobody may act. Keys and
// metadata may be personal data: put your sign-in in front of the page, and see [MaskKeys].
//
// # What it costs
//
// The list goes by SCAN over all keys of the Redis. There is one list for all viewers and all
// that they look for. What Redis works for it is a twentieth of the time at most, whatever is
// asked for, and whether the list can be made or not. It has 10,000 locks, and shows 1,000; it
// ends after 30 s. One whole key takes one script and no list. What this process holds (Leases)
// and what it saw (History) costs Redis nothing.
//
// # Without an answer
//
// When Redis does not answer, the list is a 503 with what was known before, since when it is
// old, and with what this process holds. The page of a lock stays as it is, and says so.
//
// # Requests
//
//	GET …/                  what is held; ?match= is a glob, of at most 512 bytes; ?sort= is a
//	                        column (key, name, holder, for, left, waiting, fence; -key: descending)
//	GET …/lock?key=         one lock
//	GET …/revoke, …/break   ask whether it is meant (key, fence)
//	POST …/revoke, …/break  do it (form fields key, fence)
//	GET …/forget            ask whether the record of a key is to be deleted (key, fence)
//	POST …/forget           do it (form fields key, fence, and state as it was shown)
//
// A POST is answered by 303 and the way back to the lock, by 403 if the request comes from
// another origin or its Role is not [Act], by 404 where that hold, or that record, is not there any more, by 409
// if the work of a record is in progress, and by 503 if Redis does not answer. What is out of its bounds is a 400 that names the field.
package guardweb
