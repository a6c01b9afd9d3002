package guardhttp

import (
	"context"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
)

// Middleware runs handlers under the lock that key names. With a nil g, the Guard in
// the request's context locks, or else the one given to guard.SetDefault. The lock's
// Name is the pattern of the route if With sets none, and its Wait is 2 seconds if
// neither With nor the Guard set one.
//
// It panics if key is nil or an option is out of its bounds. What it returns may be used
// for any number of handlers, and the handlers concurrently.
func Middleware(g *guard.Guard, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	guarded, err := newRule(g, key, opts...)
	if err != nil {
		panic("guardhttp: " + err.Error())
	}
	return func(next http.Handler) http.Handler {
		mustHandle(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := r.Pattern
			if name == "" {
				name = httprequest.Name(r.Method, "")
			}
			serve(guarded, name, w, r, r, next)
		})
	}
}

func mustHandle(next http.Handler) {
	if f, ok := next.(http.HandlerFunc); next == nil || ok && f == nil {
		panic("guardhttp: no handler")
	}
}

// serve has next serve r under the lock of the rule. seen is r as the rule sees it: with
// the path values of its route.
func serve(guarded *rule, name string, w http.ResponseWriter, r, seen *http.Request, next http.Handler) {
	ctx := guarded.Context(r.Context())
	if guarded.Skips(seen) {
		serveWith(ctx, w, r, next)
		return
	}
	var answer *tracker
	// A handler reports no error, so neither does the work: what comes back is guard's.
	_, err := guarded.Run(ctx, name, seen, func(held context.Context) error {
		answer = newTracker(held, w)
		serveWith(held, answer.writer(), r, next)
		return nil
	})
	if answer != nil {
		w, err = answer.finish(err)
	}
	if err != nil {
		refuse(ctx, guarded, name, w, r, seen, err)
	}
}

func refuse(ctx context.Context, guarded *rule, name string, w http.ResponseWriter, r, seen *http.Request, err error) {
	guarded.Log(ctx, "guardhttp", name, err, nil)
	if r.Pattern == "" {
		r.Pattern = seen.Pattern // what is refused has a route, too
	}
	guarded.OnError(w, seen.WithContext(ctx), err)
}

// serveWith serves a copy of r that has ctx, also where next panics.
func serveWith(ctx context.Context, w http.ResponseWriter, r *http.Request, next http.Handler) {
	inner := r.WithContext(ctx)
	defer httprequest.HandBack(r, inner)
	next.ServeHTTP(w, inner)
}
