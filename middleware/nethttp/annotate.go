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
	a := &annotated{mux, make(map[string]*row, len(routes))}
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		rule := routes[pattern].rule
		bound, err := rule.Bind(g)
		if err == nil {
			err = httprequest.Fits(rule.Placeholders(), func(name string) bool { return hasPathValue(pattern, name) })
		}
		if err != nil {
			panic(fmt.Sprintf("guardhttp: row %q: %v", pattern, err))
		}
		a.rows[pattern] = newRow(pattern, bound)
	}
	return a
}

type annotated struct {
	mux  *http.ServeMux
	rows map[string]*row // by pattern
}

func (a *annotated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := a.mux.Handler(r)
	if row := a.rows[pattern]; row != nil {
		if seen := row.read(r); seen != nil {
			serve(row.locker, pattern, w, r, seen, a.mux)
			return
		}
	}
	a.mux.ServeHTTP(w, r)
}

// row is a rule at its pattern.
type row struct {
	*locker
	alone *http.ServeMux // has the pattern and nothing else
}

func newRow(pattern string, bound *locker) *row {
	alone := http.NewServeMux()
	alone.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { w.(*reader).seen = r })
	return &row{bound, alone}
}

// read gives a copy of r with the path values and the pattern of the row, which a ServeMux
// tells by serving it only. It is nil if the mux answers r by itself: with a redirect.
func (row *row) read(r *http.Request) *http.Request {
	var to reader
	row.alone.ServeHTTP(&to, r.WithContext(r.Context()))
	return to.seen
}

// reader takes the request that a mux serves, and what a mux answers by itself.
type reader struct {
	seen   *http.Request
	header http.Header
}

func (to *reader) Header() http.Header {
	if to.header == nil {
		to.header = http.Header{}
	}
	return to.header
}
func (*reader) WriteHeader(int)             {}
func (*reader) Write(p []byte) (int, error) { return len(p), nil }

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
