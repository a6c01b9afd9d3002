package guardecho_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

	_, err = guardecho.ParseKey("order:{id")
	assert.EqualError(t, err, `guardecho: key template "order:{id": column 7: '{' without '}'`)
}

func TestMiddleware_WaitsTwoSecondsByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := echo.New()
		e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}")))
		start := time.Now()
		assert.Equal(t, http.StatusConflict, call(e, "POST", "/orders/7/pay").Code)
		assert.InDelta(t, 2*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
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

// A loss is told whatever the handler returned, which OnError can see.
func TestMiddleware_LossIsToldWhateverTheHandlerReturned(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	var got error
	rule := guardecho.Lock("k").OnError(func(c *echo.Context, err error) error {
		got = err
		return guardecho.HTTPError(c, err)
	})
	e := newEcho()
	e.POST("/", func(c *echo.Context) error {
		store.Drop("k")
		<-c.Request().Context().Done()
		return echo.NewHTTPError(http.StatusTeapot, "own")
	}, guardecho.Middleware(g, rule))
	rec := call(e, "POST", "/")
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.Contains(t, rec.Body.String(), `"code":"lock_lost"`)
	assert.ErrorIs(t, got, guard.ErrLost)
	var own *echo.HTTPError
	assert.ErrorAs(t, got, &own)
}

// A status that was held back when the handler panicked was never sent, so that what
// recovers can answer.
func TestMiddleware_PanicBehindAStatusIsAnswered(t *testing.T) {
	t.Parallel()
	e := newEcho()
	e.Use(middleware.Recover())
	e.POST("/", func(c *echo.Context) error {
		_ = c.NoContent(http.StatusNoContent)
		panic("own")
	}, guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("k")))
	assert.Equal(t, http.StatusInternalServerError, call(e, "POST", "/").Code)
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

// ContextTimeout ends the wait, and answers with a 503 of its own, which is no problem+json.
func TestMiddleware_ContextTimeoutOutside(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(middleware.ContextTimeout(20 * time.Millisecond))
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}")))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	assert.NotEmpty(t, rec.Header().Get("Retry-After"))
	assert.Equal(t, "application/json", rec.Header().Get("Content-Type"))
}
