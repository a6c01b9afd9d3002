package guardecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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
var call, ask, busy, callTarget = adaptertest.Call, adaptertest.Ask, adaptertest.Busy, adaptertest.Status

func ok(c echo.Context) error { return c.NoContent(http.StatusNoContent) }

func TestMiddleware_MisuseIsAnErrorOfToMiddleware(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardecho.Rule{
		"guardecho: no KeyFunc":                {},
		"guardecho: guard: TTL":                guardecho.Lock("k", guard.TTL(1)),
		"guardecho: BusyStatus 200 is none of": guardecho.Lock("k").BusyStatus(200),
	} {
		mw, err := guardecho.Config{Guard: guardtest.NewGuard(t), Rule: rule}.ToMiddleware()
		assert.Nil(t, mw)
		assert.ErrorContains(t, err, want)
	}
	mw, err := guardecho.Config{Rule: guardecho.Lock("k").OnError(nil).Skip(nil)}.ToMiddleware()
	assert.NoError(t, err)
	assert.NotNil(t, mw)
}

func TestMiddleware_HandlersErrorIsReturnedAsItIs(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	e := echo.New()
	c := e.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
	mw := guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("k"))
	err := mw(func(echo.Context) error { return own })(c)
	assert.Same(t, own, err)
}

func TestMiddleware_RequestIsPutBack(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	for name, handler := range map[string]echo.HandlerFunc{
		"ok":     ok,
		"error":  func(echo.Context) error { return echo.ErrTeapot },
		"panic":  func(echo.Context) error { panic("x") },
		"others": func(c echo.Context) error { c.SetRequest(httptest.NewRequest(http.MethodPut, "/", nil)); return nil },
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		c := e.NewContext(r, httptest.NewRecorder())
		mw := guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("k"))
		_ = middleware.Recover()(mw(func(c echo.Context) error {
			_, held := guard.Held(c.Request().Context(), "k")
			assert.True(t, held)
			return handler(c)
		}))(c)
		assert.Same(t, r, c.Request(), name)
	}
}

// ContextTimeout ends the wait, and puts what it gets back into an error of its own.
func TestMiddleware_ContextTimeoutOutside(t *testing.T) {
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

// Echo v4 applies middleware once a request, not once a route.
func TestPerRequest_ApplyingTheMiddlewareMakesAClosureOnly(t *testing.T) {
	g := guardtest.NewGuard(t)
	for name, mw := range map[string]echo.MiddlewareFunc{
		"Middleware": guardecho.Middleware(g, guardecho.Lock("order:{id}").BusyStatus(423)),
		"Annotate":   guardecho.Annotate(g, guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}),
	} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { mw(ok) }), 1.0, name)
	}
}

// Contexts go back to a pool: who keeps one reads another request's.
func TestPerRequest_ContextIsNotKept(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	mw := guardecho.Middleware(g, guardecho.Lock("order:{header:X-Order}"))
	serve := func(status int, order string) weak.Pointer[[64]byte] {
		e, mark := echo.New(), new([64]byte)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("X-Order", order)
		rec := httptest.NewRecorder()
		c := e.NewContext(r, rec)
		c.Set("mark", mark)
		if err := mw(ok)(c); err != nil {
			e.HTTPErrorHandler(err, c)
		}
		require.Equal(t, status, rec.Code)
		return weak.Make(mark)
	}
	served, refused := serve(http.StatusNoContent, "7"), serve(http.StatusBadRequest, "")
	runtime.GC()
	assert.Nil(t, served.Value())
	assert.Nil(t, refused.Value())
}

func held(c echo.Context) error {
	adaptertest.Held(c.Response(), c.Request())
	return nil
}

func TestRoutes_MiddlewareOfTheWholeEcho(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	e.POST("/orders/:id/pay", held)
	e.POST("", held)
	e.POST("list", held)
	e.RouteNotFound("/app/*", held)
	adaptertest.EchoWhole(t, e)
}

func TestRoutes_MiddlewareOfAGroup(t *testing.T) {
	t.Parallel()
	e := echo.New()
	group := e.Group("/orders", guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	group.POST("/:id/pay", held)
	group.POST("/list", held)
	adaptertest.EchoGroup(t, e)
}

func TestRoutes_BeforeTheRouterNothingSlipsThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusInternalServerError, callTarget(e, "POST /orders/7/pay"))
	assert.Equal(t, http.StatusNotFound, callTarget(e, "POST /nope"))

	e = echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("host:{host}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusOK, callTarget(e, "POST /orders/7/pay"), "without path parameters it is fine")
}

func TestRoutes_MiddlewareOfAHost(t *testing.T) {
	t.Parallel()
	e := echo.New()
	host := e.Host("shop.example.com", guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	host.POST("/orders/:id/pay", held)
	host.POST("/list", held)
	for target, want := range map[string]int{
		"POST http://shop.example.com/orders/7/pay": http.StatusOK,
		"POST http://shop.example.com/list":         http.StatusInternalServerError,
		"POST http://shop.example.com/nope":         http.StatusNotFound,
		"POST http://example.com/list":              http.StatusNotFound,
	} {
		assert.Equal(t, want, callTarget(e, target), target)
	}
}
