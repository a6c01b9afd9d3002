package guardecho_test

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"go.uber.org/goleak"

	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) { adaptertest.Suite(t, build) } //nolint:paralleltest // see Suite

func build(_ testing.TB, s adaptertest.Setup) http.Handler {
	e, routes, path := newEcho(), guardecho.Routes{}, adaptertest.Colons(s.Route())
	var middleware []echo.MiddlewareFunc
	switch {
	case s.Unguarded:
	case s.Table:
		for _, method := range adaptertest.Methods {
			routes[method+" "+path] = s.Rule()
		}
		e.Use(guardecho.Annotate(s.Guard, routes))
	default:
		middleware = []echo.MiddlewareFunc{guardecho.Middleware(s.Guard, s.Rule())}
	}
	e.Match(adaptertest.Methods, path, func(c *echo.Context) error {
		s.Work(c.Response(), c.Request())
		if s.InCode != nil {
			return guardecho.HTTPError(c, s.InCode(c.Request().Context()))
		}
		return s.Fail
	}, middleware...)
	return e
}

func newEcho() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return e
}
