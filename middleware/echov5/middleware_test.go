package guardecho_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

// How an echo is asked.
var call, ask, busy, callTarget = adaptertest.Call, adaptertest.Ask, adaptertest.Busy, adaptertest.Status

func ok(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }

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
	err := mw(func(*echo.Context) error { return own })(c)
	assert.Same(t, own, err)
}

func TestMiddleware_RequestIsPutBack(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	for name, handler := range map[string]echo.HandlerFunc{
		"ok":     ok,
		"error":  func(*echo.Context) error { return echo.ErrNotFound },
		"panic":  func(*echo.Context) error { panic("x") },
		"others": func(c *echo.Context) error { c.SetRequest(httptest.NewRequest(http.MethodPut, "/", nil)); return nil },
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		c := e.NewContext(r, httptest.NewRecorder())
		mw := guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("k"))
		_ = middleware.Recover()(mw(func(c *echo.Context) error {
			_, held := guard.Held(c.Request().Context(), "k")
			assert.True(t, held)
			return handler(c)
		}))(c)
		assert.Same(t, r, c.Request(), name)
	}
}

// A router that decodes parameters itself must not have them decoded again: "a/b%41" and
// "a/bA" are two orders, and "a/100%" is no bad escape.
func TestParam_ParametersAreDecodedOnce(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	for name, config := range map[string]echo.RouterConfig{
		"as they stand in the URL":       {},
		"decoded by the router":          {UnescapePathParamValues: true},
		"cut out of what is decoded":     {UseEscapedPathForMatching: true},
		"GET stands in for HEAD, always": {AutoHandleHEAD: true},
	} {
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(config)})
		e.POST(`/:shop/x\:y-:no/*`, func(c *echo.Context) error {
			lease, _ := guard.FromContext(c.Request().Context())
			return c.String(http.StatusOK, lease.Key())
		}, guardecho.Middleware(g, guardecho.Lock("{shop}:{no}:{*}")))
		for target, want := range map[string]string{
			"/%61/x:y-7/z":           "a:7:z",
			"/a/x:y-100%25/%7A":      "a:100%25:z",
			"/%2541/x:y-%3A/z%25%7A": "%2541:%3A:z%25z",
			"/%C3%BC/x:y-7/b/%7A":    "ü:7:b/z",
		} {
			rec := call(e, "POST", target)
			assert.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, target)
			assert.Equal(t, want, rec.Body.String(), "%s: %s", name, target)
		}
	}
}

func held(c *echo.Context) error {
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
	assert.Equal(t, http.StatusInternalServerError, callTarget(e, "POST /nope"))

	e = echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("host:{host}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusOK, callTarget(e, "POST /orders/7/pay"), "without path parameters it is fine")
}

// Where only the method does not match, echo v5 leaves what a pooled context held before
// in the path values.
func TestRoutes_ParametersOfAnotherRequestAreNotTaken(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	e.POST("/orders/:id/pay", held)
	for range 20 { // some of them get a context that was used
		assert.Equal(t, http.StatusOK, callTarget(e, "POST /orders/7/pay"))
		assert.Equal(t, http.StatusMethodNotAllowed, callTarget(e, "GET /orders/7/pay"))
	}
}
