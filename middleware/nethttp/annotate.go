package guardhttp

import (
	"errors"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Routes says for patterns of an http.ServeMux which locks their requests take.
type Routes map[string]Rule

// Annotate is Middleware with a table. A row is a pattern exactly as mux was given it, and applies
// to the requests that mux serves by that pattern. A row for a pattern that mux does not have
// locks nothing: see Check. The lock's Name is the row.
//
// It panics if mux is nil, a row's pattern is malformed, its rule has no key or an option out of
// its bounds, or the template of its rule has a placeholder for a path value that the pattern has
// not. Later changes of the map have no effect.
func Annotate(g *guard.Guard, mux *http.ServeMux, routes Routes) http.Handler {
	if mux == nil {
		panic("guardhttp: no mux")
	}
	rows := locking.Table(adapter.Name, routes, func(pattern string, r Rule) (*http.ServeMux, error) {
		return newRow(g, mux, pattern, r.rule)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if row := rows[pattern]; row != nil {
			row.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// newRow has mux serve the requests of a pattern under the locks of its rule. They come by a
// ServeMux that has that pattern and nothing else, because only a mux that serves a request sets its
// path values. It redirects what mux would redirect.
func newRow(g *guard.Guard, mux *http.ServeMux, pattern string, rule rule) (*http.ServeMux, error) {
	bound, err := rule.Bind(g)
	if err == nil {
		err = httprequest.Fits(rule.Placeholders(), func(name string) bool { return httprequest.PatternHas(pattern, name) })
	}
	if err != nil {
		return nil, err
	}
	row := http.NewServeMux()
	row.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { serve(bound, pattern, w, r, mux) })
	return row, nil
}

// Check says which rows lock nothing, as mux does not have their pattern: its error names each.
// Call it when the routes are registered, before the server starts, or in a test.
func Check(mux *http.ServeMux, routes Routes) error {
	if mux == nil {
		return errors.New("guardhttp: Check: no mux")
	}
	return locking.CheckTable(adapter.Name, routes, func(pattern string, _ Rule) error {
		if !httprequest.MuxHas(mux, pattern) {
			return errors.New("the mux has no such pattern")
		}
		return nil
	})
}
