package guardecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

// How an echo is asked.
var call, ask, busy, statusOf = adaptertest.Call, adaptertest.Ask, adaptertest.Busy, adaptertest.Status

func ok(c echo.Context) error { return c.NoContent(http.StatusNoContent) }

func showKey(c echo.Context) error {
	adaptertest.KeyOrNone(c.Response(), c.Request())
	return nil
}

func held(c echo.Context) error {
	adaptertest.Held(c.Response(), c.Request())
	return nil
}

func lockOrders(t *testing.T) echo.MiddlewareFunc {
	return guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("order:{id}"))
}

func TestAnnotate_RowsApplyToTheirRoutes(t *testing.T) {
	t.Parallel()
	e, rows := echo.New(), guardecho.Routes{}
	for row, template := range adaptertest.EchoRows {
		rows[row] = guardecho.Lock(template)
	}
	e.Use(guardecho.Annotate(guardtest.NewMemoryGuard(t), rows))
	for _, route := range adaptertest.EchoRoutes {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, path, showKey)
	}
	e.Any("/any", showKey)
	e.Group("/admin").POST("/orders/:id/pay", showKey)
	e.RouteNotFound("/app/*", ok)
	e.Host("shop.example.com").POST("/shop/:id", ok)
	adaptertest.EchoRowsApply(t, e)

	rows["POST /admin/orders/:id/pay"] = guardecho.Lock("order:{id}")
	rows["PATCH /any"] = guardecho.Lock("any")
	rows["POST /shop/:id"] = guardecho.Lock("shop:{id}")
	assert.EqualError(t, guardecho.Check(e, rows), adaptertest.EchoCheck)
	assert.EqualError(t, guardecho.Check(nil, nil), "guardecho: Check: no Echo")
}

func TestAnnotate_OfAGroup(t *testing.T) {
	t.Parallel()
	e := echo.New()
	rows := guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}
	group := e.Group("/orders", guardecho.Annotate(guardtest.NewMemoryGuard(t), rows))
	group.POST("/:id/pay", held)
	group.POST("/list", held)
	assert.Equal(t, http.StatusOK, statusOf(e, "POST /orders/7/pay"))
	assert.Equal(t, http.StatusNoContent, statusOf(e, "POST /orders/list"))
}

func TestMiddleware_OfTheWholeEchoAGroupOrAHost(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(lockOrders(t))
	e.POST("/orders/:id/pay", held)
	e.POST("", held)
	e.POST("list", held)
	e.RouteNotFound("/app/*", held)
	adaptertest.EchoWhole(t, e)

	e = echo.New()
	group := e.Group("/orders", lockOrders(t))
	group.POST("/:id/pay", held)
	group.POST("/list", held)
	adaptertest.EchoGroup(t, e)

	e = echo.New()
	host := e.Host("example.com", lockOrders(t)) // that of httptest's requests
	host.POST("/orders/:id/pay", held)
	host.POST("/orders/list", held)
	adaptertest.EchoGroup(t, e)

	e = echo.New()
	ran := 0
	e.Use(guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("k")), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { ran++; return next(c) }
	})
	assert.Equal(t, http.StatusNotFound, statusOf(e, "POST /nope"))
	assert.Equal(t, 1, ran)
}

// The path values are not known before the router.
func TestMiddleware_BeforeTheRouterNothingSlipsThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(lockOrders(t))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusInternalServerError, statusOf(e, "POST /orders/7/pay"))
	for range 20 { // echo reuses contexts, which have the route of an earlier request
		used := []echo.Context{e.AcquireContext(), e.AcquireContext()}
		for _, c := range used {
			c.SetPath("/orders/:id/pay")
			e.ReleaseContext(c)
		}
		require.Equal(t, http.StatusNotFound, statusOf(e, "POST /nope"))
	}

	e = echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("method:{method}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusOK, statusOf(e, "POST /orders/7/pay"))
}

// Not parallel: it replaces slog's default logger.
func TestAnnotate_BeforeTheRouterIsLoggedOnce(t *testing.T) {
	e := echo.New()
	e.Pre(guardecho.Annotate(guardtest.NewMemoryGuard(t), guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}))
	e.POST("/orders/:id/pay", ok)
	logged := adaptertest.Logged(t, func() {
		for range 3 {
			assert.Equal(t, http.StatusInternalServerError, statusOf(e, "POST /orders/7/pay"))
		}
	})
	assert.Equal(t, []string{"guard: invalid lock key: the request has no route yet: Annotate belongs into Use, not into Pre"}, logged)
}

// ContextTimeout ends the wait, and puts what it gets back into an error of its own.
func TestAnswer_ContextTimeoutOutside(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(middleware.ContextTimeout(20 * time.Millisecond))
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}")))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	assert.Contains(t, rec.Body.String(), `"code":"deadline_exceeded"`)
}

func TestAnswer_ErrorIsBareAndHandledOnce(t *testing.T) {
	t.Parallel()
	e := echo.New()
	var handled []error
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled = append(handled, err)
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	assert.Equal(t, http.StatusConflict, statusOf(e, "POST /orders/7/pay"))
	require.Len(t, handled, 1)
	_, bare := handled[0].(*echo.HTTPError) //nolint:errorlint // that it is bare is the point
	assert.True(t, bare)
	assert.ErrorAs(t, handled[0], new(*guard.BusyError))
	assert.EqualError(t, handled[0], `code=409, message=Resource is busy, internal=guard: lock "POST /orders/:id/pay" is busy`)
}

func TestAnswer_KeyFuncMayAnswerAsEchoDoes(t *testing.T) {
	t.Parallel()
	errs := map[string]error{}
	for detail, message := range map[string]any{
		"Idempotency-Key is missing": "Idempotency-Key is missing",
		"own":                        errors.New("own"),
		"The request does not say which resource": map[string]int{"a": 1},
	} {
		errs[detail] = echo.NewHTTPError(http.StatusForbidden, message).SetInternal(errors.New("secret"))
	}
	adaptertest.KeyErrors(t, build, errs)
}

func TestHTTPError_LeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	c := newEcho().NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
	for _, own := range []error{nil, errors.New("own"), echo.NewHTTPError(http.StatusTeapot).SetInternal(guard.ErrBusy)} {
		assert.Equal(t, own, guardecho.HTTPError(c, own))
	}
	assert.Empty(t, c.Response().Header())
	require.NoError(t, ok(c))
	assert.ErrorAs(t, guardecho.HTTPError(c, new(guard.BusyError)), new(*echo.HTTPError))
	assert.Empty(t, c.Response().Header(), "it was sent")
}

func TestConfig_MisuseIsAnErrorOfToMiddleware(t *testing.T) {
	t.Parallel()
	mw, err := guardecho.Config{Rule: guardecho.Lock("k").BusyStatus(200)}.ToMiddleware()
	assert.Nil(t, mw)
	assert.ErrorContains(t, err, "guardecho: BusyStatus 200 is none of")
}

// Outer layers see the response as it was sent: without a trace of an answer that a loss kept back.
func TestMiddleware_OuterLayersSeeWhatWasSent(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store)
	require.NoError(t, err)
	defer g.Close()
	for name, row := range map[string]struct {
		outer, handler echo.HandlerFunc
		committed      bool
		status         int
		err            bool
	}{
		"answered": {nil, func(c echo.Context) error { return c.NoContent(http.StatusAccepted) }, true, http.StatusAccepted, false},
		"by an outer layer": {
			func(c echo.Context) error { return c.NoContent(http.StatusAccepted) },
			func(echo.Context) error { return nil }, true, http.StatusAccepted, false,
		},
		"its own error": {nil, func(echo.Context) error { return echo.ErrTeapot }, false, http.StatusOK, true},
		"nothing":       {nil, func(echo.Context) error { return nil }, false, http.StatusOK, false},
		"lost before it was sent": {nil, func(c echo.Context) error {
			err := c.NoContent(http.StatusAccepted)
			store.Drop("k")
			lease, _ := guard.FromContext(c.Request().Context())
			assert.ErrorIs(t, lease.Check(c.Request().Context()), guard.ErrLost)
			return err
		}, false, http.StatusOK, true},
	} {
		e := echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				if row.outer != nil {
					assert.NoError(t, row.outer(c))
				}
				err := next(c)
				assert.Equal(t, row.err, err != nil, name)
				assert.Equal(t, row.committed, c.Response().Committed, name)
				assert.Equal(t, row.status, c.Response().Status, name)
				return err
			}
		}, guardecho.Middleware(g, guardecho.Lock("k")))
		e.POST("/", row.handler)
		call(e, "POST", "/")
	}
}

// An *echo.HTTPError below 500 is kept as what the Echo sends for it, and is not handled again.
func TestOnce_ReturnedHTTPErrorsAreKept(t *testing.T) {
	t.Parallel()
	adaptertest.OnceErrors(t, build, func(status int) error { return echo.NewHTTPError(status, "no such card") })
}

// A server error is not kept, and the layers outside get it.
func TestOnce_ServerErrorsAreReturned(t *testing.T) {
	t.Parallel()
	e, own := newEcho(), echo.NewHTTPError(http.StatusInternalServerError)
	outer := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := next(c)
			assert.Same(t, own, err)
			return err
		}
	}
	rule := guardecho.Lock("k").Once(time.Hour).SharedAnswer()
	e.POST("/", func(echo.Context) error { return own }, outer, guardecho.Middleware(guardtest.NewMemoryGuard(t), rule))
	assert.Equal(t, http.StatusInternalServerError, statusOf(e, "POST /"))
}

func TestKeyFunc_GetsTheContextOfItsRequest(t *testing.T) {
	t.Parallel()
	_, err := guardecho.ParseKey("order:{")
	assert.Error(t, err)
	byTemplate, err := guardecho.ParseKey("order:{id}")
	require.NoError(t, err)
	byContext := func(c echo.Context) (string, error) { return guard.JoinKey("order", c.Param("id")), nil }
	for _, key := range []guardecho.KeyFunc{byTemplate, byContext} {
		e := echo.New()
		e.POST("/orders/:id/pay", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(key)))
		assert.Equal(t, "order:7", ask(e, "POST /orders/7/pay"))
	}
	assert.Nil(t, guardecho.Context(httptest.NewRequest(http.MethodPost, "/", nil)))
}

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
	e.Match(adaptertest.Methods, path, func(c echo.Context) error {
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
	e.Logger.SetOutput(io.Discard)
	return e
}
