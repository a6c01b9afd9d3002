package guardecho

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

var adapter = &httplock.Adapter{Name: "guardecho", Known: known}

// Rule is guardhttp.Rule. Its functions get the path parameters as path values, and the echo.Context by Context.
type Rule = guardhttp.Rule

// Routes has the Rules of routes: method and full path, such as "POST /orders/:id/pay". Other requests pass untouched.
type Routes map[string]Rule

// KeyFunc is guardhttp.KeyFunc with an echo.Context, which it must not keep. An *echo.HTTPError is answered with its
// own status and Message.
type KeyFunc func(c echo.Context) (string, error)

// Lock is guardhttp.Lock.
func Lock(template string, opts ...guard.LockOption) Rule { return guardhttp.Lock(template, opts...) }

// LockFunc returns the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	return guardhttp.LockFunc(httplock.KeyOf(key), opts...)
}

// ParseKey is guardhttp.ParseKey for an echo.Context.
func ParseKey(template string) (KeyFunc, error) {
	key, err := guardhttp.ParseKey(template)
	if err != nil {
		return nil, err
	}
	return func(c echo.Context) (string, error) { return key(source(c.Request().Context(), c)) }, nil
}

// Context returns the echo.Context of a request that a function of a Rule gets. It must not be kept.
func Context(r *http.Request) echo.Context { return httplock.Native[echo.Context](r) }

// Check returns an error that names each row without a route in e, which would lock nothing. Routes of e.Host count,
// too. Call it before the server starts, or in a test.
func Check(e *echo.Echo, routes Routes) error {
	if e == nil {
		return errors.New("guardecho: Check: no Echo")
	}
	all := e.Routes()
	for _, router := range e.Routers() {
		all = append(all, router.Routes()...)
	}
	return httplock.CheckRows(adapter, routes, func(method, path string) bool { return hasRoute(all, method, path) })
}

// Config is Middleware in the form of echo's own middleware, for programs that prefer an error over a panic.
type Config struct {
	Guard *guard.Guard // nil for the Guard in the request's context, or else the one given to guard.SetDefault
	Rule  Rule         // required
}

// ToMiddleware returns the middleware, or an error where Middleware panics.
func (config Config) ToMiddleware() (echo.MiddlewareFunc, error) {
	route, err := adapter.Bind(config.Guard, config.Rule)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	// Echo calls this for every request: it must be nothing but a closure.
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return serve(route, c, next) }
	}, nil
}

// Middleware runs handlers under the lock of rule, as guardhttp.Middleware does. The lock's Name is the method and path
// of the route ("POST /orders/:id/pay") if no guard.Name is given.
func Middleware(g *guard.Guard, rule Rule) echo.MiddlewareFunc {
	middleware, err := Config{g, rule}.ToMiddleware()
	if err != nil {
		panic(err.Error())
	}
	return middleware
}

// Annotate is Middleware with a table, for Use of an Echo or a group; given to Echo.Pre, it answers 500. It also panics
// if a row is malformed or given twice, or its template needs a path parameter that the row does not have.
func Annotate(g *guard.Guard, routes Routes) echo.MiddlewareFunc {
	table := httplock.NewTable(adapter, g, routes)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if c.Path() == "" && routed(c) {
				return HTTPError(c, adapter.Early(c.Request().Context()))
			}
			if route := table.Of(c.Request().Method, c.Path()); route != nil {
				return serve(route, c, next)
			}
			return next(c)
		}
	}
}

// serve calls next under the lock of route.
func serve(route *httplock.Route, c echo.Context, next echo.HandlerFunc) error {
	r := source(route.Context(c.Request().Context()), c)
	if route.Skips(r) {
		return with(r, c, next)
	}
	result := lock(route, r, c, next)
	switch {
	case result.Unfit() && !routed(c): // a key that does not fit must not turn a 404 into a 500
		return with(r, c, next)
	case route.Handled(c.Response(), r, &result):
		return nil
	case result.Err != nil:
		return answer(c, result.Outcome, result.Err)
	}
	return result.Own
}

// lock has next write to the Answer. It restores the response, also where next panics: an answer that was never sent
// leaves no trace in it, and a hijacked connection counts as answered.
func lock(route *httplock.Route, r *http.Request, c echo.Context, next echo.HandlerFunc) httplock.Result {
	response, before := c.Response(), *c.Response()
	a := httplock.NewAnswer(response.Writer)
	defer func() {
		response.Writer, response.Committed = before.Writer, before.Committed || a.Sent()
		if !a.Sent() {
			response.Status, response.Size = before.Status, before.Size
		}
	}()
	name := cmp.Or(route.Name, httplock.Name(r.Method, c.Path()))
	return route.Serve(a, r, name, func(held context.Context) error {
		response.Writer = a.Writer()
		err := with(r.WithContext(held), c, next)
		if !route.Keeps() {
			return err
		}
		if status, _, ok := known(err); ok && status < http.StatusInternalServerError {
			c.Error(err) // Once keeps what the Echo sends for it
			return nil
		}
		return err
	})
}

// source returns the request of c as http.ServeMux would hand it out, with the pattern and the path values of its
// route.
func source(ctx context.Context, c echo.Context) *http.Request {
	r := httplock.Request(ctx, c.Request(), c)
	if c.Get(echo.ContextKeyHeaderAllow) == nil { // or else the route has another method
		r.Pattern = c.Path()
	}
	for i, name := range c.ParamNames() {
		r.SetPathValue(name, c.ParamValues()[i])
	}
	return r
}

// with calls next with the request inner.
func with(inner *http.Request, c echo.Context, next echo.HandlerFunc) error {
	defer httplock.Enter(c.Request(), inner, c.SetRequest)()
	return next(c)
}

// HTTPError turns an error of guard into the error that the package comment describes: Middleware does so by itself,
// this is for locks taken in code. It returns nil, an *echo.HTTPError and an error that is not guard's as they are.
// Return its result, as it sets headers. For a client that is gone it commits the response with status 499.
func HTTPError(c echo.Context, err error) error {
	if _, answered := err.(*echo.HTTPError); answered { //nolint:errorlint // a wrapped HTTPError is not the answer
		return err
	}
	return answer(c, httplock.Of(c.Request().Context(), err, known), err)
}

func answer(c echo.Context, outcome httplock.Outcome, err error) error {
	problem, response := &httplock.Draft{Problem: outcome.Problem}, c.Response()
	switch {
	case !outcome.Known():
		return err
	case response.Committed:
	case problem.Status == httplock.StatusClientClosed:
		response.WriteHeader(httplock.StatusClientClosed)
	default:
		problem.Prepare(response.Header(), response.Before)
	}
	return &echo.HTTPError{Code: problem.Status, Message: problem, Internal: err}
}

// known returns the status of an *echo.HTTPError and its Message, which is for clients.
func known(err error) (status int, message string, ok bool) {
	var own *echo.HTTPError
	if !errors.As(err, &own) {
		return 0, "", false
	}
	switch m := own.Message.(type) {
	case string:
		message = m
	case error: // as echo's default HTTPErrorHandler does
		message = m.Error()
	}
	return own.Code, message, true
}

// routed asks the router whether it has a route for c: c has a path for 404 and 405, too, and none before Use.
func routed(c echo.Context) bool {
	router := c.Echo().Router()
	if own, ok := c.Echo().Routers()[c.Request().Host]; ok {
		router = own
	}
	trial := c.Echo().NewContext(c.Request(), nil)
	router.Find(c.Request().Method, echo.GetPath(c.Request()), trial)
	return hasRoute(router.Routes(), c.Request().Method, trial.Path())
}

func hasRoute(routes []*echo.Route, method, path string) bool {
	return slices.ContainsFunc(routes, func(route *echo.Route) bool { return route.Method == method && route.Path == path })
}
