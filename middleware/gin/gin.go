package guardgin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

var adapter = &httplock.Adapter{Name: "guardgin"}

// Rule is guardhttp.Rule. Its functions get the path parameters as path values, and the *gin.Context by Context.
type Rule = guardhttp.Rule

// Routes has the Rules of routes: method and full path, such as "POST /orders/:id/pay". Other requests pass untouched.
type Routes map[string]Rule

// KeyFunc is guardhttp.KeyFunc with a *gin.Context, which it must not keep.
type KeyFunc func(c *gin.Context) (string, error)

// Lock is guardhttp.Lock.
func Lock(template string, opts ...guard.LockOption) Rule { return guardhttp.Lock(template, opts...) }

// LockFunc returns the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	return guardhttp.LockFunc(httplock.KeyOf(key), opts...)
}

// ParseKey is guardhttp.ParseKey for a *gin.Context.
func ParseKey(template string) (KeyFunc, error) {
	key, err := guardhttp.ParseKey(template)
	if err != nil {
		return nil, err
	}
	return func(c *gin.Context) (string, error) { return key(source(c.Request.Context(), c)) }, nil
}

// Context returns the gin.Context of a request that a function of a Rule gets. It must not be kept.
func Context(r *http.Request) *gin.Context { return httplock.Native[*gin.Context](r) }

// Check returns an error that names each row without a route in the Engine, which would lock nothing. Call it before
// the server starts, or in a test.
func Check(engine *gin.Engine, routes Routes) error {
	if engine == nil {
		return errors.New("guardgin: Check: no Engine")
	}
	known := map[string]bool{}
	for _, route := range engine.Routes() {
		known[route.Method+" "+route.Path] = true
	}
	return httplock.CheckRows(adapter, routes, func(method, path string) bool { return known[method+" "+path] })
}

// Middleware runs the handlers after it under the lock of rule, as guardhttp.Middleware does. The lock's Name is the
// method and path of the route ("POST /orders/:id/pay") if no guard.Name is given.
func Middleware(g *guard.Guard, rule Rule) gin.HandlerFunc {
	route := adapter.Must(g, rule)
	return func(c *gin.Context) { serve(route, c) }
}

// Annotate is Middleware with a table, for an Engine or a group. Give it to Use before the routes are registered, as
// gin wants all middleware. It also panics if a row is malformed or given twice, or its template needs a path parameter
// that the row does not have.
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
	status, result := lock(route, r, c)
	switch {
	case result.Unfit() && c.FullPath() == "": // gin answers 404, not 500 for a key that does not fit
	case result.Err != nil:
		c.Abort()
		_ = c.Error(result.Err)
		with(r, c, func(c *gin.Context) {
			if !route.Handled(c.Writer, r, &result) && !c.Writer.Written() {
				result.Outcome.Write(c.Writer, r.Method)
			}
		})
	case route.Handled(c.Writer, r, &result):
		c.Abort()
	default:
		c.Writer.WriteHeader(status) // which gin sends when all handlers are done, if nothing was sent
	}
}

// lock has the handlers that follow write to the Answer, and returns the status that they leave for gin to send. It
// restores gin's writer, also where a handler panics.
func lock(route *httplock.Route, r *http.Request, c *gin.Context) (status int, result httplock.Result) {
	original := c.Writer
	defer func() { c.Writer = original }()
	w := &writer{now: now{original}, status: original.Status()}
	w.answer.ResponseWriter = &w.now
	name := cmp.Or(route.Name, httplock.Name(r.Method, c.FullPath()))
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
		return nil // what handlers put into c.Errors is theirs
	})
	return w.status, result
}

// source returns the request of c as http.ServeMux would hand it out, with the pattern and the path values of its
// route. A wildcard has no slash in front of it.
func source(ctx context.Context, c *gin.Context) *http.Request {
	r := httplock.Request(ctx, c.Request, c)
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

// with calls next with the request inner.
func with(inner *http.Request, c *gin.Context, next func(*gin.Context)) {
	defer httplock.Enter(c.Request, inner, func(r *http.Request) { c.Request = r })()
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
