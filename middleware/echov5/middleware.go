package guardecho

import (
	"errors"
	"fmt"
	"slices"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
	"github.com/redlatch/redlatch/middleware/internal/httprule"
	"github.com/redlatch/redlatch/middleware/internal/outcome"
)

// Config is Middleware in the form of echo's own middleware, for programs that prefer an
// error over a panic.
type Config struct {
	// Guard locks. Where it is nil, the Guard in the request's context does, or else the
	// one given to guard.SetDefault.
	Guard *guard.Guard
	// Rule says what is locked, and how. It is required.
	Rule Rule
}

var _ echo.MiddlewareConfigurator = Config{}

// ToMiddleware makes the middleware, or says which option is out of its bounds.
func (config Config) ToMiddleware() (echo.MiddlewareFunc, error) {
	bound, err := config.Rule.rule.Bind(config.Guard)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return v5.Handle(bound, echocore.Name(c), c, next) }
	}, nil
}

// Middleware runs handlers under the lock of rule. With a nil g, the Guard in the request's
// context locks, or else the one given to guard.SetDefault. The lock's Name is the method
// and path of the route ("POST /orders/:id/pay") if no guard.Name is given, and its Wait is
// 2 seconds if neither the rule nor the Guard set one. It panics if the rule has no key or an
// option is out of its bounds; Config.ToMiddleware returns an error instead.
func Middleware(g *guard.Guard, rule Rule) echo.MiddlewareFunc {
	middleware, err := Config{g, rule}.ToMiddleware()
	if err != nil {
		panic(err.Error())
	}
	return middleware
}

// Routes says for routes such as "POST /orders/:id/pay" which locks a request takes.
type Routes map[string]Rule

// Annotate is Middleware with a table, for an Echo or a group. A row is the method and the full
// path of a route, as the route has it; requests of other routes, and those without one, pass
// untouched. A row for a route that does not exist locks nothing: see Check. The lock's Name is
// the row. It is for Use: given to Echo.Pre, it answers 500.
//
// It panics if a row is malformed or the same as another one, its rule has no key or an option out
// of its bounds, or a template needs a path parameter that the row has not.
func Annotate(g *guard.Guard, routes Routes) echo.MiddlewareFunc {
	table := httprule.NewTable(adapter, g, routes, func(r Rule) rule { return r.rule })
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return v5.HandleRow(table, c, next) }
	}
}

// Check says which rows lock nothing, as e has no such route: its error names each. Call it when
// the routes are registered, before the server starts, or in a test.
func Check(e *echo.Echo, routes Routes) error {
	if e == nil {
		return errors.New("guardecho: Check: no Echo")
	}
	known := e.Router().Routes()
	return httprule.CheckRows(adapter.Name, routes, func(method, path string) bool {
		return slices.ContainsFunc(known, func(route echo.RouteInfo) bool {
			return (route.Method == method || route.Method == echo.RouteAny) && (route.Path == path || "/"+route.Path == path)
		})
	})
}

// HTTPError turns an error of guard into the one that the package comment describes. Middleware does
// so by itself; this is for locks taken in code. An error that is neither guard's nor the end of the
// request's context, one that has a
// StatusCode() int of its own, as an *echo.HTTPError has, and nil come back as they are. HTTPError sets headers on the response,
// so its result is to be returned. For a client that is gone it commits the response with status 499.
func HTTPError(c *echo.Context, err error) error {
	// What is inside of an error is not the answer.
	if _, answered := err.(echo.HTTPStatusCoder); err == nil || answered {
		return err
	}
	given := outcome.Of(c.Request().Context(), err, known)
	if !given.Known() {
		return err
	}
	problem := &echocore.Problem{Problem: given.Problem()}
	response, _ := echo.UnwrapResponse(c.Response())
	switch {
	case response != nil && response.Committed:
	case given.Status == outcome.StatusClientClosed:
		c.Response().WriteHeader(outcome.StatusClientClosed)
	case response == nil: // somebody's wrapper that does not unwrap
		problem.SetHeader(c.Response().Header())
	default:
		problem.Prepare(response.Header(), response.Before)
	}
	return &problemError{problem, echo.NewHTTPError(problem.Status, problem.Title).Wrap(err)}
}
