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

func TestMisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	g, key := guardtest.NewGuard(t), guardecho.Key("order:{id}")
	for want, config := range map[string]guardecho.Config{
		"guardecho: no KeyFunc":                {Guard: g},
		"guardecho: guard: TTL":                {Guard: g, Key: key, Options: []guardecho.Option{guardecho.With(guard.TTL(1))}},
		"guardecho: BusyStatus 200 is none of": {Guard: g, Key: key, Options: []guardecho.Option{guardecho.BusyStatus(200)}},
	} {
		mw, err := config.ToMiddleware()
		assert.Nil(t, mw)
		assert.ErrorContains(t, err, want)
		assert.Panics(t, func() { guardecho.Middleware(config.Guard, config.Key, config.Options...) })
	}
	mw, err := guardecho.Config{Key: key, Options: []guardecho.Option{nil, guardecho.OnError(nil)}}.ToMiddleware()
	assert.NoError(t, err)
	assert.NotNil(t, mw)
	for _, mw := range []echo.MiddlewareFunc{mw, guardecho.Annotate(g, nil)} {
		assert.PanicsWithValue(t, "guardecho: no handler", func() { mw(nil) })
	}

	_, err = guardecho.ParseKey("order:{id")
	assert.EqualError(t, err, `guardecho: key template "order:{id": column 7: '{' without '}'`)
	assert.Panics(t, func() { guardecho.Key("order:{id") })
}

func TestSkipperIsThatOfEcho(t *testing.T) {
	t.Parallel()
	mw, err := guardecho.Config{
		Guard: busy(t), Key: guardecho.Key("order:{id}"), Skipper: middleware.DefaultSkipper,
		Options: []guardecho.Option{guardecho.Skip(func(c *echo.Context) bool { return c.Param("id") == "7" })},
	}.ToMiddleware()
	require.NoError(t, err)
	e := echo.New()
	e.POST("/orders/:id/pay", ok, mw)
	assert.Equal(t, http.StatusNoContent, call(e, "POST", "/orders/7/pay").Code)
}

func TestWaitsTwoSecondsByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := echo.New()
		e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Key("order:{id}")))
		start := time.Now()
		assert.Equal(t, http.StatusConflict, call(e, "POST", "/orders/7/pay").Code)
		assert.InDelta(t, 2*time.Second, time.Since(start), float64(10*time.Millisecond))
	})
}

func TestNameIsTheRoute(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewGuard(t, guard.Observe(recorder))
	e := echo.New()
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(g, guardecho.Key("order:{id}")))
	e.PUT("/orders/:id/pay", ok, guardecho.Middleware(g, guardecho.Key("order:{id}"), guardecho.With(guard.Name("put"))))
	call(e, "POST", "/orders/7/pay")
	call(e, "PUT", "/orders/7/pay")
	seen := recorder.Observations("WaitStart")
	require.Len(t, seen, 2)
	assert.Equal(t, "POST /orders/:id/pay", seen[0].Lock.Name)
	assert.Equal(t, "put", seen[1].Lock.Name)
}

func TestHandlersErrorIsReturnedAsItIs(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	e := echo.New()
	c := e.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
	mw := guardecho.Middleware(guardtest.NewGuard(t), func(*echo.Context) (string, error) { return "k", nil })
	err := mw(func(*echo.Context) error { return own })(c)
	assert.Same(t, own, err)
}

func TestHandlersErrorIsReturnedAsItIsAlsoWhenTheLockWasLost(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	e := echo.New()
	c := e.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
	mw := guardecho.Middleware(g, func(*echo.Context) (string, error) { return "k", nil })
	err = mw(func(c *echo.Context) error {
		store.Drop("k")
		<-c.Request().Context().Done()
		return echo.ErrNotFound
	})(c)
	assert.Same(t, echo.ErrNotFound, err)
}

func TestRequestIsPutBack(t *testing.T) {
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
		mw := guardecho.Middleware(guardtest.NewGuard(t), func(*echo.Context) (string, error) { return "k", nil })
		_ = middleware.Recover()(mw(func(c *echo.Context) error {
			_, held := guard.Held(c.Request().Context(), "k")
			assert.True(t, held)
			return handler(c)
		}))(c)
		assert.Same(t, r, c.Request(), name)
	}
}

// ContextTimeout ends the wait, and answers with a 503 of its own, which is no problem+json.
func TestContextTimeoutOutside(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(middleware.ContextTimeout(20 * time.Millisecond))
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Key("order:{id}")))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusServiceUnavailable, rec.Code)
	assert.NotEmpty(t, rec.Header().Get("Retry-After"))
	assert.Equal(t, "application/json", rec.Header().Get("Content-Type"))
}
