package guardecho

import (
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/httplock"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Rule is how the requests of a route are locked: the Rule of guardhttp, which Lock and LockFunc make. Its functions get
// the request as an *http.Request, with the path parameters as its path values; Context has the echo.Context.
type Rule = guardhttp.Rule

// Routes says for routes such as "POST /orders/:id/pay" which locks a request takes. A row is the method and the full path of a
// route, as the route has it; requests of other routes, and those without one, pass untouched. A row for a route that
// does not exist locks nothing: see Check. The lock's Name is the row.
type Routes map[string]Rule

// KeyFunc names what a request locks, by guard.JoinKey for example. It is called once a request, before anything is
// locked, and from many goroutines at a time; it must not keep c. Its error is answered with its own status if it has
// one (StatusCode() int, as *echo.HTTPError has), and else 500.
type KeyFunc func(c *echo.Context) (string, error)

// Lock is the Rule of a key template: see guardhttp.Lock.
func Lock(template string, opts ...guard.LockOption) Rule { return guardhttp.Lock(template, opts...) }

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule {
	if key == nil {
		return guardhttp.LockFunc(nil, opts...)
	}
	return guardhttp.LockFunc(func(r *http.Request) (string, error) { return key(Context(r)) }, opts...)
}

// ParseKey is the KeyFunc of a template that is not a constant: see guardhttp.ParseKey.
func ParseKey(template string) (KeyFunc, error) {
	key, err := guardhttp.ParseKey(template)
	if err != nil {
		return nil, err
	}
	return func(c *echo.Context) (string, error) { return key(source(c.Request().Context(), c)) }, nil
}

// Context returns the *echo.Context of a request that a function of a Rule gets. It must not be kept.
func Context(r *http.Request) *echo.Context {
	c, _ := r.Context().Value(contextKey{}).(*echo.Context)
	return c
}

type contextKey struct{}

// Check returns which rows lock nothing, as e has no such route: its error names each. Call it when the routes are
// registered, before the server starts, or in a test.
func Check(e *echo.Echo, routes Routes) error {
	if e == nil {
		return errors.New("guardecho: Check: no Echo")
	}
	known := e.Router().Routes()
	return httplock.CheckRows(adapter, routes, func(method, path string) bool {
		return slices.ContainsFunc(known, func(route echo.RouteInfo) bool {
			return (route.Method == method || route.Method == echo.RouteAny) && (route.Path == path || "/"+route.Path == path)
		})
	})
}
