package guardecho

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/middleware/internal/answer"
	"github.com/redlatch/redlatch/middleware/internal/echocore"
)

// v5 answers for this version of echo.
var v5 = &echocore.Framework[*echo.Context]{
	Routed:   routed,
	Early:    func(c *echo.Context) bool { return c.RouteInfo().Name != echo.NotFoundRouteName },
	Method:   method,
	Writer:   (*echo.Context).Response,
	Response: (*echo.Context).Response,
	WriteTo:  writeTo,
	Answer:   HTTPError,
	Known:    known,
}

var adapter = echocore.Adapter(func(c *echo.Context, name string) (string, bool) {
	value, ok := c.PathValues().Get(name)
	// Where only the method does not match, echo leaves names of another request there.
	return value, ok && routed(c)
})

// writeTo makes the handler write to a. A hijacked connection has its answer, which echo's response
// does not note.
func writeTo(c *echo.Context, a *answer.Answer) (restore func()) {
	to := c.Response()
	c.SetResponse(a.Writer())
	return func() {
		c.SetResponse(to)
		if response, _ := echo.UnwrapResponse(to); response != nil && a.Sent() {
			response.Committed = true
		}
	}
}

// problemError is an *echo.HTTPError that echo's default HTTPErrorHandler sends as the
// problem it is. That handler, unlike echo v4's, looks for what an error can do.
type problemError struct {
	*echocore.Problem
	err error // an *echo.HTTPError with guard's error inside
}

func (e *problemError) Error() string { return e.err.Error() }

func (e *problemError) Unwrap() error { return e.err }

// StatusCode makes it an echo.HTTPStatusCoder.
func (e *problemError) StatusCode() int { return e.Status }

// known gives what an *echo.HTTPError says. Its message is for clients.
func known(err error) (status int, message string, ok bool) {
	own, ok := err.(*echo.HTTPError) //nolint:errorlint // the one whose status it is
	if !ok {
		return 0, "", false
	}
	return own.Code, own.Message, true
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

// method is GET for a HEAD request that a route for GET serves (RouterConfig.AutoHandleHEAD),
// and HEAD for one with a route of its own.
func method(c *echo.Context) string {
	method := c.Request().Method
	if method == http.MethodHead && c.RouteInfo().Method == http.MethodGet {
		return http.MethodGet
	}
	return method
}
