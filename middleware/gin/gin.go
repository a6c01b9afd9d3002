package guardgin

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

var adapter = &httplock.Adapter{Name: "guardgin"}

// Middleware runs the handlers after it under the lock of rule. With a nil g, the Guard in the request's context locks,
// or else the one given to guard.SetDefault. The lock's Name is the method and path of the route
// ("POST /orders/:id/pay") if no guard.Name is given, and its Wait is 2 seconds if neither the rule nor the Guard set
// one. It panics if the rule has no key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) gin.HandlerFunc {
	route := adapter.Must(g, rule)
	return func(c *gin.Context) { serve(route, c) }
}

// Annotate is Middleware with a table, for an Engine or a group. Give it to Use before the routes are registered, as gin
// wants all middleware. It panics if a row is malformed or the same as another one, its rule has no key or an option out
// of its bounds, or a template needs a path parameter that the row has not.
func Annotate(g *guard.Guard, routes Routes) gin.HandlerFunc {
	table := httplock.NewTable(adapter, g, routes)
	return func(c *gin.Context) {
		if route := table.Of(c.Request.Method, c.FullPath()); route != nil {
			serve(route, c)
		}
	}
}

// serve runs the handlers that follow under the lock of route.
func serve(route *httplock.Route, c *gin.Context) {
	r := source(route.Context(c.Request.Context()), c)
	if route.Skips(r) {
		with(r, c, (*gin.Context).Next)
		return
	}
	name := route.Name
	if name == "" {
		name = httplock.Name(r.Method, c.FullPath())
	}
	status, result := lock(route, r, name, c)
	switch {
	case result.Replay != nil:
		c.Abort()
		result.Replay.Replay(c.Writer)
	case result.Err == nil && !result.Answer.Written():
		c.Writer.WriteHeader(status) // which gin sends when all handlers are done
	case result.Err == nil:
	case result.Unfit() && c.FullPath() == "": // a key that does not fit must not turn a 404 into a 500
		with(r, c, (*gin.Context).Next)
	default:
		c.Abort()
		_ = c.Error(result.Err)
		with(r, c, func(c *gin.Context) {
			if !route.Handled(c.Writer, r, name, &result) && !c.Writer.Written() {
				result.Outcome.Write(c.Writer, r.Method)
			}
		})
	}
}

// lock has the handlers that follow write to the Answer, and returns the status that they leave for gin to send. It puts
// gin's writer back, also where one panics.
func lock(route *httplock.Route, r *http.Request, name string, c *gin.Context) (status int, result httplock.Result) {
	original := c.Writer
	defer func() { c.Writer = original }()
	w := &writer{now: now{original}, status: original.Status()}
	w.answer.ResponseWriter = &w.now
	result = route.Serve(&w.answer, r, name, func(held context.Context) error {
		c.Writer = w
		before := len(c.Errors)
		with(r.WithContext(held), c, (*gin.Context).Next)
		w.answer.Implies(w.status)
		if len(c.Errors) > before {
			w.answer.Implies(http.StatusInternalServerError) // a layer outside answers it
		}
		if original.Written() && !w.answer.Sent() { // by Engine.HandleContext, which takes w away
			w.answer.WentPast(original.Status())
		}
		return nil // what handlers put into c.Errors is not for us
	})
	return w.status, result
}

// source is the request of c as http.ServeMux would hand it out: with the pattern and the path values of its route. A
// wildcard has no slash in front of it.
func source(ctx context.Context, c *gin.Context) *http.Request {
	r := c.Request.WithContext(context.WithValue(ctx, contextKey{}, c))
	r.Pattern = c.FullPath()
	for _, param := range c.Params {
		if strings.Contains(r.URL.Path, "//") && !strings.Contains(param.Value, "//") {
			continue // slashes in a row may have been taken for one
		}
		if strings.HasSuffix(r.Pattern, "/*"+param.Key) {
			param.Value = strings.TrimPrefix(param.Value, "/")
		}
		r.SetPathValue(param.Key, param.Value)
	}
	return r
}

// with calls next with the request inner, and puts the old one back, also where next panics: outer layers must not see a
// context that has ended.
func with(inner *http.Request, c *gin.Context, next func(*gin.Context)) {
	outer := c.Request
	c.Request = inner
	defer func() {
		httplock.HandBack(outer, inner)
		c.Request = outer
	}()
	next(c)
}

// WriteError answers as guardhttp.WriteError does, and aborts. Middleware does so by itself; this is for locks taken in
// code.
func WriteError(c *gin.Context, err error) {
	if err == nil {
		return
	}
	c.Abort()
	if !c.Writer.Written() {
		httplock.Of(c.Request.Context(), err, nil).Write(c.Writer, c.Request.Method)
	}
}
