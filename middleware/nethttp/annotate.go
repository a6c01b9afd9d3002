package guardhttp

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
)

// Annotate locks some routes of next, which may be an http.ServeMux, the router of any
// framework, or a plain handler:
//
//	srv.Handler = guardhttp.Annotate(g, router, guardhttp.Routes{
//		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}", guard.NoWait()),
//		"DELETE /orders/{id}":   guardhttp.Lock("order:{id}"),
//	})
//
// Rows are patterns as http.ServeMux takes them, and the most specific one that matches
// a request applies. A request that no row matches reaches next untouched. Path values
// are those of the row, decoded as ServeMux does, whatever next makes of the URL, so
// that the same URL has the same key behind every router. Write "/orders/{id}":
// "/orders/:id" is malformed, whatever next takes.
//
// If next is an *http.ServeMux, a row does not apply where the mux has a more specific
// path: /orders/new/pay is not order "new" if it is a route of its own. Methods and hosts do
// not make a path more specific: the row "/orders/{id}/pay" also locks what the mux has
// for "POST /orders/{id}/pay". It is the same for a mux inside of that mux. Where next is a
// router of another kind, or something around a mux, give such routes a row of their own.
//
// Another router may also read a path in another way than ServeMux does, if there is an
// encoded slash, "//" or ".." in it: a row applies if it matches any of the readings, and
// the answer is 400 if they have different rows or path values. Put what rewrites paths,
// such as http.StripPrefix, outside of Annotate.
//
// With a nil g, the Guard in the request's context locks, or else the one given to
// guard.SetDefault. opts apply to every row, and the row's own options behind them. The
// lock's Name is the row's pattern if With sets none, and its Wait is 2 seconds if
// neither With nor the Guard set one. Keys and hooks see the request with the row's path
// values and pattern, next sees it without.
//
// Annotate panics if next is nil, a row's pattern is malformed or conflicts with another
// one, its Key is nil, the template of its Lock has a placeholder for a path value that the
// pattern has not, or an option is out of its bounds. A row that no request matches locks
// nothing: see Check.
func Annotate(g *guard.Guard, next http.Handler, routes Routes, opts ...Option) http.Handler {
	mustHandle(next)
	return routes.Middleware(g, opts...)(next)
}

// Middleware is Annotate in the form of middleware. Routers take it in their Use, which is
// how locks get inside of authentication:
//
//	r.Use(authenticate)
//	r.Use(guardhttp.Routes{
//		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
//	}.Middleware(g))
//
// Rows have the full path of a request, also in the Use of a sub-router. Later changes of
// the map have no effect.
//
// It panics where Annotate does.
func (r Routes) Middleware(g *guard.Guard, opts ...Option) func(http.Handler) http.Handler {
	rows := http.NewServeMux()
	patterns := slices.Sorted(maps.Keys(r))
	for _, pattern := range patterns {
		guarded, err := newRule(g, r[pattern].Key, slices.Concat(opts, r[pattern].Options)...)
		if err := cmp.Or(err, checkPattern(pattern)); err != nil {
			panic(fmt.Sprintf("guardhttp: row %q: %v", pattern, err))
		}
		rows.Handle(pattern, newRow(pattern, guarded))
	}
	for _, pattern := range patterns {
		if err := httprequest.Fits(r[pattern].placeholders, newRow(pattern, nil).hasPathValue); err != nil {
			panic(fmt.Sprintf("guardhttp: row %q: %v", pattern, err))
		}
	}
	return func(next http.Handler) http.Handler {
		mustHandle(next)
		mux, _ := next.(*http.ServeMux)
		return &annotated{next: next, mux: mux, rows: rows}
	}
}

// annotated is what Annotate returns.
type annotated struct {
	next http.Handler
	mux  *http.ServeMux // next, if it is one
	rows *http.ServeMux // finds rows, and never answers a request
}

func (a *annotated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, seen, err := a.find(r)
	switch {
	case found == nil:
		a.next.ServeHTTP(w, r)
	case err != nil:
		refuse(found.rule.Context(r.Context()), found.rule, found.pattern, w, r, seen, err)
	default:
		serve(found.rule, found.pattern, w, r, seen, a.next)
	}
}
