package guardhttp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Middleware runs handlers under the lock of rule. With a nil g, the Guard in the request's
// context locks, or else the one given to guard.SetDefault. The lock's Name is the pattern
// of the route if no guard.Name is given, and its Wait is 2 seconds if neither the rule nor
// the Guard set one. It panics if the rule has no key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) func(http.Handler) http.Handler {
	bound := adapter.Must(g, rule.rule)
	return func(next http.Handler) http.Handler {
		if f, ok := next.(http.HandlerFunc); next == nil || ok && f == nil {
			panic("guardhttp: no handler")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serve(bound, cmp.Or(r.Pattern, httprequest.Name(r.Method, "")), w, r, next)
		})
	}
}

// serve has next serve r under the locks of bound.
func serve(bound *locker, name string, w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := bound.Context(r.Context())
	if bound.Skips(r) {
		serveWith(ctx, w, r, next)
		return
	}
	call := httprule.Call[*http.Request]{Route: name, Src: r, Request: r, To: w, Replay: w}
	given, _, err := bound.Serve(ctx, call, func(held context.Context, a *answer.Answer) error {
		serveWith(a.Context(held), a.Writer(), r, next)
		return nil // a handler reports no error
	})
	if err == nil {
		return
	}
	bound.Log(ctx, adapter.Name, name, given, err, nil)
	if given != nil && given.Sent() {
		ctx, w = given.Context(ctx), given.Writer() // WriteError knows them
	}
	bound.OnError(WriteError)(w, r.WithContext(ctx), err)
}

// serveWith serves a copy of r that has ctx, also where next panics.
func serveWith(ctx context.Context, w http.ResponseWriter, r *http.Request, next http.Handler) {
	inner := r.WithContext(ctx)
	defer httprequest.HandBack(r, inner)
	next.ServeHTTP(w, inner)
}

// WriteError answers an error of guard as the package comment lists it. Middleware does
// so by itself; this is for locks taken in code. An error that is not guard's is answered 500
// without a code, a nil err not at all. If w is known to be written to already, as it is inside of
// Middleware with the request's context, nothing is written.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil && !answer.Written(r.Context(), w) {
		outcome.Write(w, r, err)
	}
}
