package guardecho

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// v4 answers for this version of echo.
var v4 = &echocore.Framework[echo.Context]{
	Routed:   routed,
	Early:    func(c echo.Context) bool { return findPath(c) != "" },
	Method:   func(c echo.Context) string { return c.Request().Method },
	Writer:   func(c echo.Context) http.ResponseWriter { return c.Response().Writer },
	Response: func(c echo.Context) http.ResponseWriter { return c.Response() },
	WriteTo:  writeTo,
	Answer:   HTTPError,
	Known:    known,
}

var adapter = echocore.Adapter(func(c echo.Context, name string) (string, bool) {
	return c.Param(name), slices.Contains(c.ParamNames(), name)
})

// writeTo makes the response write to a. An answer that was held back and never sent is none,
// so restore takes back what the response noted of it. A hijacked connection has its answer, which
// the response does not note.
func writeTo(c echo.Context, a *answer.Answer) (restore func()) {
	response := c.Response()
	before := *response
	response.Writer = a.Writer()
	return func() {
		response.Writer = before.Writer
		if a.Sent() {
			response.Committed = true
			return
		}
		response.Committed, response.Status, response.Size = before.Committed, before.Status, before.Size
	}
}

// known gives what an *echo.HTTPError says. Its message is for clients.
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

// routed is asked only where a key does not fit: echo gives no more than the path,
// and gives it for 404 and 405, too.
func routed(c echo.Context) bool {
	// No route, or none yet (Echo.Pre), and then nothing may slip through unlocked.
	path := cmp.Or(c.Path(), findPath(c))
	return hasRoute(routerOf(c).Routes(), c.Request().Method, path)
}

func hasRoute(routes []*echo.Route, method, path string) bool {
	return slices.ContainsFunc(routes, func(route *echo.Route) bool {
		return route.Method == method && route.Path == path
	})
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
