package guardgin

import (
	"context"
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Middleware runs the handlers after it under the lock of rule. With a nil g, the Guard in
// the request's context locks, or else the one given to guard.SetDefault. The lock's Name is
// the method and path of the route ("POST /orders/:id/pay") if no guard.Name is given, and
// its Wait is 2 seconds if neither the rule nor the Guard set one. It panics if the rule has no
// key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) gin.HandlerFunc {
	bound := adapter.Must(g, rule.rule)
	return func(c *gin.Context) { serve(bound, httprequest.Name(c.Request.Method, c.FullPath()), c) }
}

// Routes says for routes such as "POST /orders/:id/pay" which locks a request takes.
type Routes map[string]Rule

// Annotate is Middleware with a table, for an Engine or a group. A row is the method and the full
// path of a route, as the route has it; requests of other routes, and those without one, pass
// untouched. A row for a route that does not exist locks nothing: see Check. The lock's Name is
// the row. Give it to Use before the routes are registered, as gin wants all middleware.
//
// It panics if a row is malformed or the same as another one, its rule has no key or an option out
// of its bounds, or a template needs a path parameter that the row has not.
func Annotate(g *guard.Guard, routes Routes) gin.HandlerFunc {
	table := httprule.NewTable(adapter, g, routes, func(r Rule) rule { return r.rule })
	return func(c *gin.Context) {
		if row := table.Of(c.Request.Method, c.FullPath()); row != nil {
			serve(row.Locker, row.Route, c)
		}
	}
}

// Check says which rows lock nothing, as the Engine has no such route: its error names each. Call
// it when the routes are registered, before the server starts, or in a test.
func Check(engine *gin.Engine, routes Routes) error {
	if engine == nil {
		return errors.New("guardgin: Check: no Engine")
	}
	known := map[string]bool{}
	for _, route := range engine.Routes() {
		known[route.Method+" "+route.Path] = true
	}
	return httprule.CheckRows(adapter.Name, routes, func(method, path string) bool { return known[method+" "+path] })
}

// WriteError answers as guardhttp.WriteError does, and aborts. Middleware does so by itself; this
// is for locks taken in code.
func WriteError(c *gin.Context, err error) {
	if err == nil {
		return
	}
	c.Abort()
	if !c.Writer.Written() {
		outcome.Write(c.Writer, c.Request, err)
	}
}

// serve runs the handlers that follow under the locks of bound.
func serve(bound *locker, name string, c *gin.Context) {
	ctx := bound.Context(c.Request.Context())
	if bound.Skips(c) {
		nextWith(ctx, c, (*gin.Context).Next)
		return
	}
	original := c.Writer
	defer func() { c.Writer = original }()
	var held *writer
	call := httprule.Call[*gin.Context]{Route: name, Src: c, Request: c.Request, To: now{original}, Replay: original}
	given, _, err := bound.Serve(ctx, call, func(ctx context.Context, a *answer.Answer) error {
		held = &writer{ResponseWriter: original, answer: a, status: original.Status()}
		c.Writer = held
		before := len(c.Errors)
		nextWith(ctx, c, (*gin.Context).Next)
		a.Implies(held.status)
		if len(c.Errors) > before {
			a.Implies(http.StatusInternalServerError) // somebody further out answers it
		}
		if original.Written() && !a.Sent() { // by Engine.HandleContext, which takes held away
			a.WentPast(original.Status())
		}
		return nil // what handlers put into c.Errors is not for us
	})
	c.Writer = original
	switch {
	case err == nil && given == nil: // an earlier answer was sent
		c.Abort()
		return
	case err == nil && given.Written():
		return
	case err == nil:
		original.WriteHeader(held.status) // which gin sends when all handlers are done
		return
	// A key that does not fit must not turn a 404 into a 500.
	case locking.Unfit(err) && c.FullPath() == "":
		nextWith(ctx, c, (*gin.Context).Next)
		return
	}
	bound.Log(ctx, adapter.Name, name, given, err, nil)
	c.Abort()
	_ = c.Error(err)
	nextWith(ctx, c, func(c *gin.Context) { bound.OnError(WriteError)(c, err) })
}

// nextWith calls next with a request that has ctx, and puts the old one back, also where
// next panics: outer layers must not see a context that has ended.
func nextWith(ctx context.Context, c *gin.Context, next func(*gin.Context)) {
	outer := c.Request
	inner := outer.WithContext(ctx)
	c.Request = inner
	defer func() {
		httprequest.HandBack(outer, inner)
		c.Request = outer
	}()
	next(c)
}
