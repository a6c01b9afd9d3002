package guardhttp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

var adapter = &httplock.Adapter{Name: "guardhttp"}

// Middleware runs handlers under the lock of rule. With a nil g, the Guard in the request's context locks, or else the
// one given to guard.SetDefault. The lock's Name is the pattern of the route if no guard.Name is given, and its Wait is
// 2 seconds if neither the rule nor the Guard set one. It panics if the rule has no key or an option is out of its
// bounds.
func Middleware(g *guard.Guard, rule Rule) func(http.Handler) http.Handler {
	route := adapter.Must(g, rule)
	return func(next http.Handler) http.Handler {
		if f, ok := next.(http.HandlerFunc); next == nil || ok && f == nil {
			panic("guardhttp: no handler")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner := r.WithContext(route.Context(r.Context()))
			defer httplock.HandBack(r, inner)
			serve(route, w, inner, next)
		})
	}
}

// serve has next serve r under the lock of route. The context of r is one of Route.Context.
func serve(route *httplock.Route, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if route.Skips(r) {
		next.ServeHTTP(w, r)
		return
	}
	name := cmp.Or(r.Pattern, httplock.Name(r.Method, ""))
	a := httplock.NewAnswer(w)
	result := route.Serve(a, r, name, func(held context.Context) error {
		inner := r.WithContext(a.Context(held))
		defer httplock.HandBack(r, inner)
		next.ServeHTTP(a.Writer(), inner)
		return nil // a handler reports no error
	})
	if !route.Handled(w, r, &result) && result.Err != nil && !a.Sent() {
		result.Outcome.Write(w, r.Method)
	}
}

// WriteError answers an error of guard as the package comment lists it: Middleware does so by itself, this is for locks
// taken in code. It answers 500 without a code for an error that is not guard's, and nothing for nil. It writes nothing
// if w was written to, as far as w or, inside of Middleware, the request's context knows.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil && !httplock.Written(r.Context(), w) {
		httplock.Of(r.Context(), err, nil).Write(w, r.Method)
	}
}
