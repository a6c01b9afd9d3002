package guardecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func newContext() echo.Context {
	return newEcho().NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
}

func TestAnnotate_RowsApplyToTheirRoutes(t *testing.T) {
	t.Parallel()
	rows := guardecho.Routes{}
	for row, template := range adaptertest.EchoRows {
		rows[row] = guardecho.Lock(template)
	}
	e := echo.New()
	e.Use(guardecho.Annotate(guardtest.NewMemoryGuard(t), rows))
	for _, route := range adaptertest.EchoRoutes {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, path, showKey)
	}
	e.Any("/any", showKey)
	e.Group("/admin").POST("/orders/:id/pay", showKey)
	adaptertest.EchoRowsApply(t, e)

	e = echo.New()
	group := e.Group("/admin", guardecho.Annotate(guardtest.NewMemoryGuard(t), guardecho.Routes{"POST /admin/orders/:id/pay": guardecho.Lock("order:{id}")}))
	group.POST("/orders/:id/pay", showKey)
	group.POST("/list", showKey)
	for request, want := range map[string]string{"orders/7/pay": "order:7", "list": "none", "nope": "Not Found"} {
		assert.Equal(t, want, ask(e, "POST /admin/"+request))
	}
}

func TestCheck_NamesRowsThatLockNothing(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Group("/api").DELETE("/orders/:order", ok)
	e.Any("/any", ok)
	e.RouteNotFound("/*", ok)
	e.Host("shop.example.com").POST("/shop/:id", ok)
	e.POST("list", ok)
	rows := guardecho.Routes{
		"POST list":                 guardecho.Lock("list"),
		"PATCH /any":                guardecho.Lock("any"),
		"DELETE /api/orders/:order": guardecho.Lock("order:{order}"),
		"POST /shop/:id":            guardecho.Lock("shop:{id}"),
	}
	assert.NoError(t, guardecho.Check(e, rows))
	rows["DELETE /orders/:order"] = guardecho.Lock("order:{order}")
	rows["DELETE /api/orders/:id"] = guardecho.Lock("order:{id}")
	rows["post /list"] = guardecho.Lock("list")
	const no = "there is no such route; a row has the full path, as the route has it"
	assert.EqualError(t, guardecho.Check(e, rows), `guardecho: row "DELETE /api/orders/:id": `+no+`
guardecho: row "DELETE /orders/:order": `+no+`
guardecho: row "post /list": no request has the method "post": methods are in upper case`)
	assert.EqualError(t, guardecho.Check(nil, nil), "guardecho: Check: no Echo")
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
}

// The path values are not known before the router.
func TestMiddleware_BeforeTheRouterNothingSlipsThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(lockOrders(t))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusInternalServerError, statusOf(e, "POST /orders/7/pay"))
	assert.Equal(t, http.StatusNotFound, statusOf(e, "POST /nope"))

	e = echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("method:{method}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusOK, statusOf(e, "POST /orders/7/pay"))
}

func TestConfig_MisuseIsAnErrorOfToMiddleware(t *testing.T) {
	t.Parallel()
	mw, err := guardecho.Config{Rule: guardecho.Lock("k").BusyStatus(200)}.ToMiddleware()
	assert.Nil(t, mw)
	assert.ErrorContains(t, err, "guardecho: BusyStatus 200 is none of")
}

// The handler's own error comes back identical, and the request is put back.
func TestMiddleware_LeavesNothingInTheContext(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	for name, row := range map[string]struct {
		handler echo.HandlerFunc
		want    error
	}{
		"ok":     {ok, nil},
		"error":  {func(echo.Context) error { return own }, own},
		"panic":  {func(echo.Context) error { panic(own) }, nil}, // Recover answers it
		"others": {func(c echo.Context) error { c.SetRequest(httptest.NewRequest(http.MethodPut, "/", nil)); return nil }, nil},
	} {
		c := newContext()
		r, mw := c.Request(), guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("k"))
		err := middleware.Recover()(mw(func(c echo.Context) error {
			_, held := guard.Held(c.Request().Context(), guard.Key("k"))
			assert.True(t, held)
			return row.handler(c)
		}))(c)
		assert.Equal(t, row.want, err, name)
		assert.Same(t, r, c.Request(), name)
	}
}

// Echo v4 applies middleware once a request, not once a route.
func TestMiddleware_ApplyingItMakesAClosureOnly(t *testing.T) {
	g := guardtest.NewMemoryGuard(t)
	for name, mw := range map[string]echo.MiddlewareFunc{
		"Middleware": guardecho.Middleware(g, guardecho.Lock("order:{id}").BusyStatus(423)),
		"Annotate":   guardecho.Annotate(g, guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}),
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { mw(ok) }), 1.0, name)
	}
}

// Contexts go back to a pool: a kept one is soon that of another request.
func TestMiddleware_ContextIsNotKept(t *testing.T) {
	t.Parallel()
	mw := guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("order:{header:X-Order}"))
	serve := func(status int, order string) weak.Pointer[[64]byte] {
		c, mark := newContext(), new([64]byte)
		c.Request().Header.Set("X-Order", order)
		c.Set("mark", mark)
		if err := mw(ok)(c); err != nil {
			c.Error(err)
		}
		require.Equal(t, status, c.Response().Status)
		return weak.Make(mark)
	}
	served, refused := serve(http.StatusNoContent, "7"), serve(http.StatusBadRequest, "")
	runtime.GC()
	assert.Nil(t, served.Value())
	assert.Nil(t, refused.Value())
}

// ContextTimeout ends the wait, and puts what it gets back into an error of its own.
func TestAnswer_ContextTimeoutOutside(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(middleware.ContextTimeout(20 * time.Millisecond))
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}")))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	assert.NotEmpty(t, rec.Header().Get("Retry-After"))
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Contains(t, rec.Body.String(), `"code":"deadline_exceeded"`)
}

func TestAnswer_ErrorIsBareAndHandledOnce(t *testing.T) {
	t.Parallel()
	e := echo.New()
	handled := 0
	var seen error
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled++
		seen = err
		e.DefaultHTTPErrorHandler(err, c)
	}
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Equal(t, 1, handled)
	bare, ok := seen.(*echo.HTTPError) //nolint:errorlint // that it is bare is the point
	require.True(t, ok)
	assert.Equal(t, http.StatusConflict, bare.Code)
	assert.ErrorAs(t, seen, new(*guard.BusyError))
	assert.Equal(t, `code=409, message=Resource is busy, internal=guard: lock "POST /orders/:id/pay" is busy`, seen.Error())
}

func TestAnswer_KeyFuncMayAnswerAsEchoDoes(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*echo.HTTPError{
		`"detail":"Idempotency-Key is missing"`:             echo.NewHTTPError(http.StatusForbidden, "Idempotency-Key is missing"),
		`"detail":"Forbidden"`:                              echo.NewHTTPError(http.StatusForbidden),
		`"detail":"own"`:                                    echo.NewHTTPError(http.StatusForbidden, errors.New("own")),
		`"detail":"The request does not say which resource`: echo.NewHTTPError(http.StatusForbidden, map[string]int{"a": 1}),
	} {
		key := func(echo.Context) (string, error) { return "", err.WithInternal(errors.New("secret")) }
		e := echo.New()
		e.POST("/", ok, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(key)))
		rec := call(e, "POST", "/")
		assert.Equal(t, http.StatusForbidden, rec.Code)
		assert.Contains(t, rec.Body.String(), want)
		assert.Contains(t, rec.Body.String(), `"code":"lock_key_invalid"`)
		assert.NotContains(t, rec.Body.String(), "secret")
	}
}

func TestHTTPError_LeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	c := newContext()
	for _, own := range []error{nil, errors.New("own"), echo.NewHTTPError(http.StatusTeapot).SetInternal(guard.ErrBusy)} {
		assert.Equal(t, own, guardecho.HTTPError(c, own))
	}
	assert.Empty(t, c.Response().Header())
}

// Echo reuses contexts: a request that is not found has no route, although the context of an earlier request had a
// route.
func TestMiddleware_BeforeTheRouterAnEarlierRouteIsForgotten(t *testing.T) {
	t.Parallel()
	e := newEcho()
	e.Pre(lockOrders(t))
	e.POST("/orders/:id/pay", ok)
	for range 20 {
		used := []echo.Context{e.AcquireContext(), e.AcquireContext()}
		for _, c := range used {
			c.SetPath("/orders/:id/pay")
			e.ReleaseContext(c)
		}
		require.Equal(t, http.StatusNotFound, statusOf(e, "POST /nowhere"))
	}
}

func newEcho() *echo.Echo {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	return e
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

// An *echo.HTTPError below 500 is kept as what the Echo sends for it, and is not handled again; any other error has the
// next request run the handler.
func TestOnce_ReturnedHTTPErrorsAreKept(t *testing.T) {
	t.Parallel()
	for status, runs := range map[int]int{http.StatusNotFound: 1, http.StatusUnprocessableEntity: 1, http.StatusConflict: 2, http.StatusBadGateway: 2} {
		e, ran := newEcho(), 0
		e.POST("/pay", func(echo.Context) error { ran++; return echo.NewHTTPError(status, "no such card") },
			guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("pay").Once(time.Hour).SharedAnswer()))
		first, second := call(e, "POST", "/pay"), call(e, "POST", "/pay")
		assert.Equal(t, status, first.Code)
		assert.Equal(t, first.Code, second.Code)
		assert.JSONEq(t, first.Body.String(), second.Body.String())
		assert.Equal(t, runs, ran, status)
		assert.Equal(t, runs == 1, second.Header().Get("Idempotent-Replayed") == "true", status)
	}
}

// A function of a Rule has the echo.Context of its request.
func TestContext_IsThatOfTheRequest(t *testing.T) {
	t.Parallel()
	rule := guardecho.Lock("tenant:{tenant}:order:{id}").Value("tenant", func(r *http.Request) (string, error) {
		return guardecho.Context(r).Get("tenant").(string), nil
	})
	e := newEcho()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { c.Set("tenant", "acme"); return next(c) }
	})
	e.POST("/orders/:id/pay", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), rule))
	byContext := func(c echo.Context) (string, error) { return guard.JoinKey("order", c.Param("id")), nil }
	e.POST("/stock/:id", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(byContext)))
	fromConfig, err := guardecho.ParseKey("order:{id}")
	require.NoError(t, err)
	e.POST("/files/:id", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(fromConfig)))
	assert.Equal(t, "tenant:acme:order:7", adaptertest.Ask(e, "POST /orders/7/pay"))
	assert.Equal(t, "order:7", adaptertest.Ask(e, "POST /stock/7"))
	assert.Equal(t, "order:7", adaptertest.Ask(e, "POST /files/7"))
	assert.Nil(t, guardecho.Context(httptest.NewRequest(http.MethodPost, "/", nil)))
}
