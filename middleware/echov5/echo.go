package guardecho

import (
	"context"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

var adapter = &httplock.Adapter{Name: "guardecho", Known: known}

// Config is Middleware in the form of echo's own middleware, for programs that prefer an error over a panic.
type Config struct {
	Guard *guard.Guard // nil for the Guard in the request's context, or else the one given to guard.SetDefault
	Rule  Rule         // required
}

var _ echo.MiddlewareConfigurator = Config{}

// ToMiddleware makes the middleware, or says which option is out of its bounds.
func (config Config) ToMiddleware() (echo.MiddlewareFunc, error) {
	route, err := adapter.Bind(config.Guard, config.Rule)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return serve(route, c, next) }
	}, nil
}

// Middleware runs handlers under the lock of rule. With a nil g, the Guard in the request's context locks, or else the
// one given to guard.SetDefault. The lock's Name is the method and path of the route ("POST /orders/:id/pay") if no
// guard.Name is given, and its Wait is 2 seconds if neither the rule nor the Guard set one. It panics if the rule has no
// key or an option is out of its bounds; Config.ToMiddleware returns an error instead.
func Middleware(g *guard.Guard, rule Rule) echo.MiddlewareFunc {
	middleware, err := Config{g, rule}.ToMiddleware()
	if err != nil {
		panic(err.Error())
	}
	return middleware
}

// Annotate is Middleware with a table, for Use of an Echo or a group; given to Echo.Pre, it answers 500. It panics if a
// row is malformed or the same as another one, its rule has no key or an option out of its bounds, or a template needs a
// path parameter that the row has not.
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

// serve has next serve c under the lock of route.
func serve(route *httplock.Route, c *echo.Context, next echo.HandlerFunc) error {
	r := source(route.Context(c.Request().Context()), c)
	if route.Skips(r) {
		return with(r, c, next)
	}
	name := route.Name
	if name == "" {
		name = httplock.Name(r.Method, c.Path())
	}
	result := lock(route, r, name, c, next)
	switch {
	case result.Replay != nil:
		result.Replay.Replay(c.Response())
		return nil
	case result.Err == nil:
		return result.Own
	case result.Unfit() && !routed(c): // a key that does not fit must not turn a 404 into a 500
		return with(r, c, next)
	case route.Handled(c.Response(), r, name, &result):
		return nil
	}
	return answer(c, result.Outcome, result.Err)
}

// lock has next write to the Answer. It puts the response back, also where next panics. A hijacked connection has its
// answer, which the response does not note.
func lock(route *httplock.Route, r *http.Request, name string, c *echo.Context, next echo.HandlerFunc) httplock.Result {
	to := c.Response()
	a := httplock.NewAnswer(to)
	defer func() {
		c.SetResponse(to)
		if response, _ := echo.UnwrapResponse(to); response != nil && a.Sent() {
			response.Committed = true
		}
	}()
	return route.Serve(a, r, name, func(held context.Context) error {
		c.SetResponse(a.Writer())
		err := with(r.WithContext(held), c, next)
		if err == nil || !route.Keeps() {
			return err
		}
		if status := echo.StatusCode(err); status != 0 && status < http.StatusInternalServerError {
			c.Echo().HTTPErrorHandler(c, err) // what the Echo sends for it is kept
			return nil
		}
		return err
	})
}

// source is the request of c as http.ServeMux would hand it out, with the pattern and the path values of its route.
func source(ctx context.Context, c *echo.Context) *http.Request {
	r := c.Request().WithContext(context.WithValue(ctx, contextKey{}, c))
	r.Pattern = ""
	if routed(c) { // or else echo leaves names of another request there
		r.Pattern = c.Path()
		for _, value := range c.PathValues() {
			r.SetPathValue(value.Name, value.Value)
		}
	}
	return r
}

// with calls next with the request inner, and puts the old one back, also where next panics: outer layers must not see a
// context that has ended.
func with(inner *http.Request, c *echo.Context, next echo.HandlerFunc) error {
	outer := c.Request()
	c.SetRequest(inner)
	defer func() {
		httplock.HandBack(outer, inner)
		c.SetRequest(outer)
	}()
	return next(c)
}

// HTTPError turns an error of guard into the one that the package comment describes. Middleware does so by itself; this
// is for locks taken in code. An error that is neither guard's nor the end of the request's context, one that has a
// StatusCode() int of its own, as an *echo.HTTPError has, and nil come back as they are. HTTPError sets headers on the
// response, so its result is to be returned. For a client that is gone it commits the response with status 499.
func HTTPError(c *echo.Context, err error) error {
	// What is inside of an error is not the answer.
	if _, answered := err.(echo.HTTPStatusCoder); err == nil || answered {
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

// known returns what an *echo.HTTPError says. Its message is for clients.
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
