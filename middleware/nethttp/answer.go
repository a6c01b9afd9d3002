package guardhttp

import (
	"encoding/json"
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// WriteError answers an error of guard as the package comment lists it. Middleware does
// so by itself; this is for locks taken in code:
//
//	if err := guard.WithLock(r.Context(), key, work); err != nil {
//		guardhttp.WriteError(w, r, err)
//		return
//	}
//
// An error that is not guard's is answered 500 without a code, a nil err not at all. If
// w is known to be written to already, as it is behind Middleware, nothing is written.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil || written(w) {
		return
	}
	answer := outcome.Of(r.Context(), err, nil)
	if answer.Status == outcome.StatusClientClosed {
		w.WriteHeader(outcome.StatusClientClosed)
		return
	}
	problem := answer.Problem()
	problem.SetHeader(w.Header())
	w.Header().Set("Content-Type", outcome.ContentType)
	w.WriteHeader(problem.Status)
	if r.Method != http.MethodHead {
		// A client that does not take the answer is not ours to handle.
		_ = json.NewEncoder(w).Encode(problem)
	}
}

// written looks through wrappers that were put around a tracker.
func written(w http.ResponseWriter) bool {
	for {
		switch v := w.(type) {
		case interface{ Written() bool }:
			return v.Written()
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return false
		}
	}
}
