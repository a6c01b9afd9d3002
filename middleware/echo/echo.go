package guardecho

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

var adapter = &httplock.Adapter{Name: "guardecho", Known: known}

// Config is Middleware in the form of echo's own middleware, for programs that prefer an error over a panic.
type Config struct {
	Guard *guard.Guard // nil for the Guard in the request's context, or else the one given to guard.SetDefault
	Rule  Rule         // required
}

// ToMiddleware makes the middleware, or says which option is out of its bounds.
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

// serve has next serve c under the lock of route.
func serve(route *httplock.Route, c echo.Context, next echo.HandlerFunc) error {
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

// lock has next write to the Answer. It puts the response back, also where next panics, and takes back what the response
// noted of an answer that was never sent. A hijacked connection has its answer, which the response does not note.
func lock(route *httplock.Route, r *http.Request, name string, c echo.Context, next echo.HandlerFunc) httplock.Result {
	response, before := c.Response(), *c.Response()
	a := httplock.NewAnswer(response.Writer)
	defer func() {
		response.Writer = before.Writer
		if a.Sent() {
			response.Committed = true
			return
		}
		response.Committed, response.Status, response.Size = before.Committed, before.Status, before.Size
	}()
	return route.Serve(a, r, name, func(held context.Context) error {
		response.Writer = a.Writer()
		err := with(r.WithContext(held), c, next)
		if err == nil || !route.Keeps() {
			return err
		}
		if status, _, ok := known(err); ok && status < http.StatusInternalServerError {
			c.Error(err) // what the Echo sends for it is kept
			return nil
		}
		return err
	})
}

// source is the request of c as http.ServeMux would hand it out, with the pattern and the path values of its route.
func source(ctx context.Context, c echo.Context) *http.Request {
	r := c.Request().WithContext(context.WithValue(ctx, contextKey{}, c))
	r.Pattern = ""
	if c.Get(echo.ContextKeyHeaderAllow) == nil { // or else the route has another method
		r.Pattern = c.Path()
	}
	for i, name := range c.ParamNames() {
		r.SetPathValue(name, c.ParamValues()[i])
	}
	return r
}

// with calls next with the request inner, and puts the old one back, also where next panics: outer layers must not see a
// context that has ended.
func with(inner *http.Request, c echo.Context, next echo.HandlerFunc) error {
	outer := c.Request()
	c.SetRequest(inner)
	defer func() {
		httplock.HandBack(outer, inner)
		c.SetRequest(outer)
	}()
	return next(c)
}

// HTTPError turns an error of guard into the one that the package comment describes. Middleware does so by itself; this
// is for locks taken in code. An error that is neither guard's nor the end of the request's context, one that is an
// *echo.HTTPError already, and nil come back as they are. HTTPError sets headers on the response, so its result is to be
// returned. For a client that is gone it commits the response with status 499.
func HTTPError(c echo.Context, err error) error {
	if _, answered := err.(*echo.HTTPError); err == nil || answered { //nolint:errorlint // what is inside is not the answer
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

// known returns what an *echo.HTTPError says. Its message is for clients.
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

// routed says whether the router has a route for c. It asks the router, as c has a path for 404 and 405, too, and none
// before Use.
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
