package guardhttp

import (
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

var errAmbiguous = &guard.KeyError{
	Reason: "the path",
	Err:    keytemplate.Invalid("routers may read it in different ways"),
}

// find gives the row that applies to r, and r as the row sees it: with its path values
// and pattern. Without a row, r is to be left alone. With an error, it is to be refused.
func (a *annotated) find(r *http.Request) (found *row, seen *http.Request, err error) {
	if a.mux != nil || isPlain(r.URL) {
		found = a.match(r)
		if found == nil || a.mux != nil && !found.appliesTo(r, a.mux) {
			return nil, nil, nil
		}
		return found, a.read(r), nil
	}
	for _, reading := range readings(r.URL) {
		there := r.WithContext(r.Context())
		there.URL = reading
		switch m := a.match(there); {
		case m == nil:
		case found == nil:
			found, seen = m, a.read(there)
		case m != found || !m.sameValues(seen, a.read(there)):
			err = errAmbiguous
		}
	}
	return found, seen, err
}

// match gives the row for r, or nil, also where a ServeMux would redirect r.
func (a *annotated) match(r *http.Request) *row {
	h, _ := a.rows.Handler(r)
	m, _ := h.(*row)
	return m
}

// read gives a copy of r with the path values and the pattern of the row that matches.
// They are to be had from serving the request only; a row does nothing when it is served.
func (a *annotated) read(r *http.Request) *http.Request {
	seen := r.WithContext(r.Context())
	seen.RequestURI = "" // a mux would answer "*" itself
	a.rows.ServeHTTP(nil, seen)
	seen.RequestURI = r.RequestURI
	return seen
}
