package guardecho_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func build(tb testing.TB, s adaptertest.Setup) http.Handler {
	opts := []guardecho.Option{guardecho.With(s.Options...)}
	if s.OnError {
		opts = append(opts, guardecho.OnError(guardecho.HTTPError))
	}
	if s.BusyStatus != 0 {
		opts = append(opts, guardecho.BusyStatus(s.BusyStatus))
	}
	key := guardecho.Key(s.Template)
	if s.Key != nil {
		key = func(*echo.Context) (string, error) { return s.Key() }
	}
	guarded, err := guardecho.Config{
		Guard:   s.Guard,
		Key:     key,
		Skipper: func(*echo.Context) bool { return s.Skip },
		Options: opts,
	}.ToMiddleware()
	require.NoError(tb, err)
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	route := func(c *echo.Context) error {
		s.Work(c.Response(), c.Request())
		return s.Fail
	}
	methods, path := []string{http.MethodPost, http.MethodHead}, "/orders/:id/pay"
	if s.Unguarded {
		e.Match(methods, path, route)
	} else {
		e.Match(methods, path, route, guarded)
	}
	return e
}

func buildAnnotated(tb testing.TB, s adaptertest.Setup) http.Handler {
	key := guardecho.Key(s.Template)
	if s.Key != nil {
		key = func(*echo.Context) (string, error) { return s.Key() }
	}
	row := guardecho.Rule{Key: key, Options: []guardecho.Option{
		guardecho.With(s.Options...),
		guardecho.Skip(func(*echo.Context) bool { return s.Skip }),
	}}
	if s.BusyStatus != 0 {
		row = row.With(guardecho.BusyStatus(s.BusyStatus))
	}
	if s.OnError {
		row = row.With(guardecho.OnError(guardecho.HTTPError))
	}
	guarded := guardecho.Annotate(s.Guard, guardecho.Routes{
		"POST /orders/:id/pay": row,
		"HEAD /orders/:id/pay": row,
	})
	s.Unguarded = true
	e := build(tb, s).(*echo.Echo)
	e.Use(guarded)
	return e
}

func TestSuite(t *testing.T) {
	t.Parallel()
	adaptertest.Suite(t, build)
}

func TestSuiteOfAnnotate(t *testing.T) {
	t.Parallel()
	adaptertest.Suite(t, buildAnnotated)
}

func TestOnRedis(t *testing.T) {
	t.Parallel()
	adaptertest.OnRedis(t, build)
}

// Not parallel: it listens to what is logged.
func TestLogs(t *testing.T) {
	adaptertest.Logs(t, build)
	adaptertest.Logs(t, buildAnnotated)
}

// Not parallel: it listens to what is logged.
func TestAnnotateBeforeTheRouterIsLoggedOnce(t *testing.T) {
	e := echo.New()
	e.Pre(guardecho.Annotate(guardtest.NewGuard(t), guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}))
	e.POST("/orders/:id/pay", ok)
	logged := adaptertest.Logged(t, func() {
		for range 3 {
			assert.Equal(t, http.StatusInternalServerError, callTarget(e, "POST /orders/7/pay"))
		}
	})
	assert.Equal(t, []string{"guard: invalid lock key: the request has no route yet: Annotate belongs into Use, not into Pre"}, logged)
}
