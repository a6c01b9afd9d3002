package guardhttp

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
)

// Routes says for patterns of an http.ServeMux which locks their requests take.
type Routes map[string]Rule

// Annotate locks some routes of mux:
//
//	srv.Handler = guardhttp.Annotate(g, mux, guardhttp.Routes{
//		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}", guard.NoWait()),
//		"DELETE /orders/{id}":   guardhttp.Lock("order:{id}"),
//	})
//
// A row is a pattern exactly as mux was given it, and applies to the requests that mux
// serves by that pattern: mux alone decides which they are. A row for a pattern that mux
// does not have locks nothing: see Check. Other routers take Middleware on each route.
//
// With a nil g, the Guard in the request's context locks, or else the one given to
// guard.SetDefault. The lock's Name is the row's pattern if no guard.Name is given, and its
// Wait is 2 seconds if neither the rule nor the Guard set one.
//
// Annotate panics if mux is nil, a row's pattern is malformed, its rule has no key or an
// option out of its bounds, or the template of its rule has a placeholder for a path value
// that the pattern has not. Later changes of the map have no effect.
func Annotate(g *guard.Guard, mux *http.ServeMux, routes Routes) http.Handler {
	if mux == nil {
		panic("guardhttp: no mux")
	}
	rows := make(map[string]http.Handler, len(routes))
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		row, err := newRow(g, mux, pattern, routes[pattern].rule)
		if err != nil {
			panic(fmt.Sprintf("guardhttp: row %q: %v", pattern, err))
		}
		rows[pattern] = row
	}
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
// ServeMux that has that pattern and nothing else, as only serving tells the path values. What
// mux would redirect, that one does.
func newRow(g *guard.Guard, mux *http.ServeMux, pattern string, rule rule) (*http.ServeMux, error) {
	bound, err := rule.Bind(g)
	if err == nil {
		err = httprequest.Fits(rule.Placeholders(), func(name string) bool { return hasPathValue(pattern, name) })
	}
	if err != nil {
		return nil, err
	}
	row := http.NewServeMux()
	row.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { serve(bound, pattern, w, r, mux) })
	return row, nil
}

// Check says which rows lock nothing, as mux does not have their pattern. Call it when the
// routes are registered, before the server starts, or in a test. The error names each row;
// it is nil if all lock something.
//
// A ServeMux does not list its patterns, so Check asks it for made-up requests that only the
// pattern of the row should match.
func Check(mux *http.ServeMux, routes Routes) error {
	if mux == nil {
		return errors.New("guardhttp: Check: no mux")
	}
	var problems []error
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		if !slices.ContainsFunc(samples(pattern), func(r *http.Request) bool {
			_, chosen := mux.Handler(r)
			return chosen == pattern
		}) {
			problems = append(problems, fmt.Errorf("guardhttp: row %q: the mux has no such pattern", pattern))
		}
	}
	return errors.Join(problems...)
}

var wildcard = regexp.MustCompile(`\{[^{}]*\}`)

// samples gives requests that a pattern matches, and hardly another one. In them, its
// wildcards stand for themselves: nobody has a route of its own for the order "{id}".
func samples(pattern string) (all []*http.Request) {
	method, rest := "SAMPLE", pattern // what has a method of its own is another pattern
	if at := strings.IndexAny(pattern, " \t"); at >= 0 {
		method, rest = pattern[:at], strings.TrimLeft(pattern[at:], " \t")
	}
	host, path, _ := strings.Cut(rest, "/")
	path, exact := strings.CutSuffix("/"+path, "{$}")
	tails := []string{""}
	if begin, many := strings.CutSuffix(path, "...}"); many || !exact && strings.HasSuffix(path, "/") {
		path = begin[:strings.LastIndexByte(begin, '/')+1]
		tails = []string{"", "{a}", "{a}/{b}", "{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}"}
	}
	for _, tail := range tails {
		u, err := url.Parse(wildcard.ReplaceAllStringFunc(path+tail, url.PathEscape))
		if err != nil { // "/100%", say
			u = &url.URL{Path: path + tail}
		}
		all = append(all, &http.Request{Method: method, Host: host, URL: u})
	}
	return all
}
