package guardecho

import (
	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// v4 answers for this version of echo.
var v4 = &echocore.Framework[echo.Context]{
	Routed: routed,
	Early:  func(c echo.Context) bool { return findPath(c) != "" },
	Method: func(c echo.Context) string { return c.Request().Method },
	Answer: HTTPError,
	Known:  known,
}

// routed is asked where a key does not fit only, since echo tells no more than the path,
// and that one also for 404 and 405.
func routed(c echo.Context) bool {
	path, method := c.Path(), c.Request().Method
	if path == "" {
		// No route, or none yet (Echo.Pre), and then nothing may slip through unlocked.
		path = findPath(c)
	}
	for _, route := range routerOf(c).Routes() {
		if route.Method == method && rooted(route.Path) == path {
			return true
		}
	}
	return false
}

// findPath gives the path of the route that the router will find for c.
func findPath(c echo.Context) string {
	trial := c.Echo().AcquireContext()
	defer c.Echo().ReleaseContext(trial)
	trial.Reset(c.Request(), c.Response())
	routerOf(c).Find(c.Request().Method, echo.GetPath(c.Request()), trial)
	return trial.Path()
}

func routerOf(c echo.Context) *echo.Router {
	if own, ok := c.Echo().Routers()[c.Request().Host]; ok {
		return own
	}
	return c.Echo().Router()
}

// rooted spells a path as the router does: routes keep the spelling they were given.
func rooted(path string) string {
	if path == "" || path[0] != '/' {
		return "/" + path
	}
	return path
}
