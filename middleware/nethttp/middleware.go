package guardhttp

import (
	"context"
	"net/http"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Middleware runs handlers under the lock that key names. With a nil g, the Guard in
// the request's context locks, or else the one given to guard.SetDefault. The lock's
// Name is the pattern of the route if With sets none, and its Wait is 2 seconds if
// neither With nor the Guard set one.
//
// It panics if key is nil or an option is out of its bounds. What it returns may be used
// for any number of handlers, and the handlers concurrently.
func Middleware(g *guard.Guard, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	c, err := newConfig(g, key, opts)
	if err != nil {
		panic(err.Error())
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("guardhttp: no handler")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(w, r, next) })
	}
}

func (c *config) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := outcome.WithBusyStatus(c.policy.Context(r.Context()), c.busyStatus)
	for _, skip := range c.skip {
		if skip(r) {
			serveWith(ctx, w, r, next)
			return
		}
	}
	name := r.Pattern
	if name == "" {
		name = httprequest.Name(r.Method, "")
	}
	key := func(context.Context) (string, error) { return c.key(r) }
	// A handler reports no error, so neither does the work: what comes back is guard's.
	_, err := c.policy.Run(ctx, name, key, func(held context.Context) error {
		w = track(w)
		serveWith(held, w, r, next)
		return nil
	})
	if err != nil {
		c.onError(w, r.WithContext(ctx), err)
	}
}

// serveWith serves a copy of r that has ctx, also where next panics.
func serveWith(ctx context.Context, w http.ResponseWriter, r *http.Request, next http.Handler) {
	inner := r.WithContext(ctx)
	defer httprequest.HandBack(r, inner)
	next.ServeHTTP(w, inner)
}
