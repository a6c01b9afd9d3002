package guardecho

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// Check says which rows lock nothing, as e has no such route, and which templates of Lock
// need a path parameter that the route does not have: a request of it would be answered
// 500. Call it when the routes are registered, before the server starts, or in a test. The
// error names each such row; it is nil if there is none. Routes of e.Host count, too.
func Check(e *echo.Echo, routes Routes) error {
	if e == nil {
		return errors.New("guardecho: Check: no Echo")
	}
	known := e.Routes()
	for _, router := range e.Routers() {
		known = append(known, router.Routes()...)
	}
	all := make([]echocore.Route, len(known))
	for i, route := range known {
		all[i] = echocore.Route{Method: route.Method, Path: route.Path}
	}
	return echocore.Check(routes.placeholders(), all)
}
