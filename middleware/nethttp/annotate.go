package guardhttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Routes has the Rules of patterns of an http.ServeMux.
type Routes map[string]Rule

// Annotate is Middleware with a table. A row is a pattern exactly as mux was given it, and applies to the requests that
// mux serves by that pattern. A row for a pattern that mux does not have locks nothing: see Check. The lock's Name is
// the row.
//
// It panics if mux is nil, a row's pattern is malformed, its rule has no key or an option out of its bounds, or its
// template needs a path value that the pattern does not have. Later changes of the map have no effect.
func Annotate(g *guard.Guard, mux *http.ServeMux, routes Routes) http.Handler {
	if mux == nil {
		panic("guardhttp: no mux")
	}
	rows := locking.Table(adapter.Name, routes, func(pattern string, rule Rule) (*row, error) { return newRow(g, pattern, rule) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := mux.Handler(r)
		row := rows[pattern]
		if row == nil {
			mux.ServeHTTP(w, r)
			return
		}
		inner := r.WithContext(context.WithValue(row.route.Context(r.Context()), handlerKey{}, handler))
		defer httplock.HandBack(r, inner)
		row.mux.ServeHTTP(w, inner)
	})
}

// row serves the requests of a pattern under its lock. Its ServeMux has that pattern and no other, as only a ServeMux
// sets path values. It redirects what the program's would redirect.
type row struct {
	route *httplock.Route
	mux   *http.ServeMux
}

// handlerKey is the context key of the handler that the program's mux has for a request.
type handlerKey struct{}

func newRow(g *guard.Guard, pattern string, rule Rule) (*row, error) {
	route, err := adapter.BindRow(g, rule, pattern)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		serve(route, w, r, r.Context().Value(handlerKey{}).(http.Handler)) //nolint:forcetypeassert // Annotate set it
	})
	return &row{route, mux}, nil
}

// Check returns an error that names each row whose pattern mux does not have, which would lock nothing. Call it before
// the server starts, or in a test.
func Check(mux *http.ServeMux, routes Routes) error {
	if mux == nil {
		return errors.New("guardhttp: Check: no mux")
	}
	return locking.CheckTable(adapter.Name, routes, func(pattern string, _ Rule) error {
		if !muxHas(mux, pattern) {
			return errors.New("the mux has no such pattern")
		}
		return nil
	})
}

// muxHas reports whether mux was given a pattern. A ServeMux does not list its patterns, so muxHas asks it for made-up
// requests that only this pattern should match.
func muxHas(mux *http.ServeMux, pattern string) bool {
	return slices.ContainsFunc(samples(pattern), func(r *http.Request) bool {
		_, chosen := mux.Handler(r)
		return chosen == pattern
	})
}

var wildcard = regexp.MustCompile(`\{[^{}]*\}`)

// samples returns requests. If a ServeMux has the pattern, at least one of them is for it. In them, its wildcards stand
// for themselves: no program has a route of its own for the order "{id}".
func samples(pattern string) (all []*http.Request) {
	method, rest := "SAMPLE", pattern // a pattern with a method is another pattern
	if at := strings.IndexAny(pattern, " \t"); at >= 0 {
		method, rest = pattern[:at], strings.TrimLeft(pattern[at:], " \t")
	}
	host, path, _ := strings.Cut(rest, "/")
	path = strings.TrimSuffix("/"+path, "{$}")
	// Below a pattern that ends in "/" or "...}", other patterns may match the shorter paths.
	for _, tail := range []string{"", "{a}", "{a}/{b}", "{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}"} {
		u, err := url.Parse(wildcard.ReplaceAllStringFunc(path+tail, url.PathEscape))
		if err != nil { // "/100%", say
			u = &url.URL{Path: path + tail}
		}
		all = append(all, &http.Request{Method: method, Host: host, URL: u})
	}
	return all
}
