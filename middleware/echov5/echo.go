package guardecho

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

var adapter = &httplock.Adapter{Name: "guardecho", Known: known}

// Rule is guardhttp.Rule. Its functions get the path parameters as path values, and the *echo.Context by Context.
type Rule = guardhttp.Rule

// Routes has the Rules of routes: method and full path, such as "POST /orders/:id/pay". Other requests pass untouched.
type Routes map[string]Rule

// KeyFunc is guardhttp.KeyFunc with an *echo.Context, which it must not keep. An *echo.HTTPError is answered with its
// own status and Message.
type KeyFunc func(c *echo.Context) (string, error)

// Lock is guardhttp.Lock.
func Lock(template string, opts ...guard.LockOption) Rule { return guardhttp.Lock(template, opts...) }

// LockFunc returns the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	return guardhttp.LockFunc(httplock.KeyOf(key), opts...)
}

// ParseKey is guardhttp.ParseKey for an *echo.Context.
func ParseKey(template string) (KeyFunc, error) {
	key, err := guardhttp.ParseKey(template)
	if err != nil {
		return nil, err
	}
	return func(c *echo.Context) (string, error) { return key(source(c.Request().Context(), c)) }, nil
}

// Context returns the *echo.Context of a request that a function of a Rule gets. It must not be kept.
func Context(r *http.Request) *echo.Context { return httplock.Native[*echo.Context](r) }

// Check returns an error that names each row without a route in e, which would lock nothing. Call it before the server
// starts, or in a test.
func Check(e *echo.Echo, routes Routes) error {
	if e == nil {
		return errors.New("guardecho: Check: no Echo")
	}
	all := e.Router().Routes()
	return httplock.CheckRows(adapter, routes, func(method, path string) bool {
		return slices.ContainsFunc(all, func(route echo.RouteInfo) bool {
			return (route.Method == method || route.Method == echo.RouteAny) && (route.Path == path || "/"+route.Path == path)
		})
	})
}

// Config is Middleware in the form of echo's own middleware, for programs that prefer an error over a panic.
type Config struct {
	Guard *guard.Guard // nil for the Guard in the request's context, or else the one given to guard.SetDefault
	Rule  Rule         // required
}

var _ echo.MiddlewareConfigurator = Config{}

// ToMiddleware returns the middleware, or an error where Middleware panics.
func (config Config) ToMiddleware() (echo.MiddlewareFunc, error) {
	route, err := adapter.Bind(config.Guard, config.Rule)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return serve(route, c, next) }
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
		return func(c *echo.Context) error {
			if c.Path() == "" && c.RouteInfo().Name != echo.NotFoundRouteName {
				return HTTPError(c, adapter.Early(c.Request().Context()))
			}
			if route := table.Of(method(c), c.Path()); route != nil {
				return serve(route, c, next)
			}
			return next(c)
		}
	}
}

// serve calls next under the lock of route.
func serve(route *httplock.Route, c *echo.Context, next echo.HandlerFunc) error {
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

// lock has next write to the Answer. It restores the response, also where next panics: a hijacked connection counts as
// answered.
func lock(route *httplock.Route, r *http.Request, c *echo.Context, next echo.HandlerFunc) httplock.Result {
	to := c.Response()
	a := httplock.NewAnswer(to)
	defer func() {
		c.SetResponse(to)
		if response, _ := echo.UnwrapResponse(to); response != nil && a.Sent() {
			response.Committed = true
		}
	}()
	name := cmp.Or(route.Name, httplock.Name(r.Method, c.Path()))
	return route.Serve(a, r, name, func(held context.Context) error {
		c.SetResponse(a.Writer())
		err := with(r.WithContext(held), c, next)
		if !route.Keeps() {
			return err
		}
		if status := echo.StatusCode(err); status != 0 && status < http.StatusInternalServerError {
			c.Echo().HTTPErrorHandler(c, err) // Once keeps what the Echo sends for it
			return nil
		}
		return err
	})
}

// source returns the request of c as http.ServeMux would hand it out, with the pattern and the path values of its
// route.
func source(ctx context.Context, c *echo.Context) *http.Request {
	r := httplock.Request(ctx, c.Request(), c)
	if routed(c) { // or else echo leaves names of another request there
		r.Pattern = c.Path()
		for _, value := range c.PathValues() {
			r.SetPathValue(value.Name, value.Value)
		}
	}
	return r
}

// with calls next with the request inner.
func with(inner *http.Request, c *echo.Context, next echo.HandlerFunc) error {
	defer httplock.Enter(c.Request(), inner, c.SetRequest)()
	return next(c)
}

// HTTPError turns an error of guard into the error that the package comment describes: Middleware does so by itself,
// this is for locks taken in code. It returns nil, an error with a StatusCode() int, such as an *echo.HTTPError, and an
// error that is not guard's as they are. Return its result, as it sets headers. For a client that is gone it commits
// the response with status 499.
func HTTPError(c *echo.Context, err error) error {
	// A wrapped HTTPError is not the answer.
	if _, answered := err.(echo.HTTPStatusCoder); answered {
		return err
	}
	return answer(c, httplock.Of(c.Request().Context(), err, known), err)
}

func answer(c *echo.Context, outcome httplock.Outcome, err error) error {
	problem := &httplock.Draft{Problem: outcome.Problem}
	response, _ := echo.UnwrapResponse(c.Response())
	switch {
	case !outcome.Known():
		return err
	case response != nil && response.Committed:
	case problem.Status == httplock.StatusClientClosed:
		c.Response().WriteHeader(httplock.StatusClientClosed)
	case response == nil: // a wrapper that does not unwrap
		problem.SetHeader(c.Response().Header())
	default:
		problem.Prepare(response.Header(), response.Before)
	}
	return &problemError{problem, echo.NewHTTPError(problem.Status, problem.Title).Wrap(err)}
}

// problemError is an *echo.HTTPError that echo's default HTTPErrorHandler sends as the problem it is. That handler,
// unlike echo v4's, looks for what an error can do.
type problemError struct {
	*httplock.Draft
	err error // an *echo.HTTPError with guard's error inside
}

func (e *problemError) Error() string { return e.err.Error() }

func (e *problemError) Unwrap() error { return e.err }

// StatusCode makes it an echo.HTTPStatusCoder.
func (e *problemError) StatusCode() int { return e.Status }

// known returns the status of an *echo.HTTPError and its Message, which is for clients.
func known(err error) (status int, message string, ok bool) {
	own, ok := err.(*echo.HTTPError) //nolint:errorlint // the one whose status it is
	if !ok {
		return 0, "", false
	}
	return own.Code, own.Message, true
}

// routed is also true before Use, where there is no route yet: nothing may slip through unlocked.
func routed(c *echo.Context) bool {
	route := c.RouteInfo()
	switch route.Name {
	case echo.NotFoundRouteName, echo.MethodNotAllowedRouteName:
		return false
	}
	return route.Method != echo.RouteNotFound
}

// method is GET for a HEAD request that a route for GET serves (RouterConfig.AutoHandleHEAD).
func method(c *echo.Context) string {
	method := c.Request().Method
	if method == http.MethodHead && c.RouteInfo().Method == http.MethodGet {
		return http.MethodGet
	}
	return method
}
