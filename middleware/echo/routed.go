package guardecho

import "github.com/labstack/echo/v4"

// routed says whether c's request has a route that could be guarded. Middleware of a
// group or of the Echo also runs for requests that are answered 404 or 405 further in,
// and a key that does not fit must not turn those into a 500. It is asked on that path
// only, since echo tells no more than the path, and that one also for 404 and 405.
func routed(c echo.Context) bool {
	path, method := c.Path(), c.Request().Method
	router := c.Echo().Router()
	if own, ok := c.Echo().Routers()[c.Request().Host]; ok {
		router = own
	}
	if path == "" {
		// No route, or none yet (Echo.Pre), and then nothing may slip through unlocked.
		trial := c.Echo().AcquireContext()
		defer c.Echo().ReleaseContext(trial)
		trial.Reset(c.Request(), c.Response())
		router.Find(method, echo.GetPath(c.Request()), trial)
		path = trial.Path()
	}
	for _, route := range router.Routes() {
		if route.Method == method && rooted(route.Path) == path {
			return true
		}
	}
	return false
}

// rooted spells a path as the router does: routes keep the spelling they were given.
func rooted(path string) string {
	if path == "" || path[0] != '/' {
		return "/" + path
	}
	return path
}
