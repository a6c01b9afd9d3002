package guardecho

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// v5 answers for this version of echo.
var v5 = &echocore.Framework[*echo.Context]{
	Routed: routed,
	Early:  func(c *echo.Context) bool { return c.RouteInfo().Name != echo.NotFoundRouteName },
	Method: method,
	Answer: HTTPError,
	Known:  known,
}

// routed is also true where there is no route yet (Echo.Pre): nothing may slip through
// unlocked then.
func routed(c *echo.Context) bool {
	route := c.RouteInfo()
	switch route.Name {
	case echo.NotFoundRouteName, echo.MethodNotAllowedRouteName:
		return false
	}
	return route.Method != echo.RouteNotFound
}

// method tells a HEAD request that a route for GET serves (RouterConfig.AutoHandleHEAD)
// from one with a route of its own.
func method(c *echo.Context) string {
	method := c.Request().Method
	if method == http.MethodHead && c.RouteInfo().Method == http.MethodGet {
		return http.MethodGet
	}
	return method
}
