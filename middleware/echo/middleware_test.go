package guardecho_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"

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
