package guardecho_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
var call, busy, statusOf = adaptertest.Call, adaptertest.Busy, adaptertest.Status

func ok(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }

func showKey(c *echo.Context) error {
	adaptertest.KeyOrNone(c.Response(), c.Request())
	return nil
}

func held(c *echo.Context) error {
	adaptertest.Held(c.Response(), c.Request())
	return nil
}

func lockOrders(t *testing.T) echo.MiddlewareFunc {
	return guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("order:{id}"))
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
}

func TestAnnotate_RowForGETIsThatOfTheHEADThatItServes(t *testing.T) {
	t.Parallel()
	e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	e.Use(guardecho.Annotate(guardtest.NewMemoryGuard(t), guardecho.Routes{"GET /list": guardecho.Lock("list")}))
	e.GET("/list", held)
	assert.Equal(t, http.StatusOK, statusOf(e, "HEAD /list"))
}

func TestCheck_NamesRowsThatLockNothing(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Group("/api").DELETE("/orders/:order", ok)
	e.Any("/any", ok)
	e.RouteNotFound("/*", ok)
	e.POST("list", ok)
	rows := guardecho.Routes{
		"POST list":                 guardecho.Lock("list"),
		"PATCH /any":                guardecho.Lock("any"),
		"DELETE /api/orders/:order": guardecho.Lock("order:{order}"),
	}
	assert.NoError(t, guardecho.Check(e, rows))
	rows["DELETE /orders/:order"] = guardecho.Lock("order:{order}")
	assert.EqualError(t, guardecho.Check(e, rows),
		`guardecho: row "DELETE /orders/:order": there is no such route; a row has the full path, as the route has it`)
	assert.EqualError(t, guardecho.Check(nil, nil), "guardecho: Check: no Echo")
}

func TestMiddleware_OfTheWholeEchoOrAGroup(t *testing.T) {
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
}

// The path values are not known before the router.
func TestMiddleware_BeforeTheRouterNothingSlipsThrough(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	for _, row := range []struct {
		mw        echo.MiddlewareFunc
		pay, nope int
	}{
		{lockOrders(t), 500, 500},
		{guardecho.Annotate(g, guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}), 500, 500},
		{guardecho.Middleware(g, guardecho.Lock("method:{method}")), 200, 404},
	} {
		e := echo.New()
		e.Pre(row.mw)
		e.POST("/orders/:id/pay", held)
		assert.Equal(t, row.pay, statusOf(e, "POST /orders/7/pay"))
		assert.Equal(t, row.nope, statusOf(e, "POST /nope"))
	}
}

// Where only the method does not match, echo v5 leaves the path values of an earlier request in a pooled context.
func TestMiddleware_ParametersOfAnotherRequestAreNotTaken(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(lockOrders(t))
	e.POST("/orders/:id/pay", held)
	for range 20 { // some of them get a context that was used
		assert.Equal(t, http.StatusOK, statusOf(e, "POST /orders/7/pay"))
		assert.Equal(t, http.StatusMethodNotAllowed, statusOf(e, "GET /orders/7/pay"))
	}
}

// A router that decodes parameters itself must not have them decoded again: "a/b%41" and
// "a/bA" are two orders, and "a/100%" is no bad escape.
func TestMiddleware_ParametersAreDecodedOnce(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]echo.RouterConfig{
		"as they stand in the URL":       {},
		"decoded by the router":          {UnescapePathParamValues: true},
		"cut out of the decoded path":    {UseEscapedPathForMatching: true},
		"GET stands in for HEAD, always": {AutoHandleHEAD: true},
	} {
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(config)})
		e.POST(`/:shop/x\:y-:no/*`, showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("{shop}:{no}:{*}")))
		for target, want := range map[string]string{
			"/%61/x:y-7/z":           "a:7:z",
			"/a/x:y-100%25/%7A":      "a:100%25:z",
			"/%2541/x:y-%3A/z%25%7A": "%2541:%3A:z%25z",
			"/%C3%BC/x:y-7/b/%7A":    "ü:7:b/z",
		} {
			assert.Equal(t, want, adaptertest.Ask(e, "POST "+target), "%s: %s", name, target)
		}
	}
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
		"error":  {func(*echo.Context) error { return own }, own},
		"panic":  {func(*echo.Context) error { panic(own) }, own}, // Recover returns it
		"others": {func(c *echo.Context) error { c.SetRequest(httptest.NewRequest(http.MethodPut, "/", nil)); return nil }, nil},
	} {
		c := newContext()
		r, mw := c.Request(), guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.Lock("k"))
		err := middleware.Recover()(mw(func(c *echo.Context) error {
			_, held := guard.Held(c.Request().Context(), guard.Key("k"))
			assert.True(t, held)
			return row.handler(c)
		}))(c)
		assert.ErrorIs(t, err, row.want, name)
		assert.Same(t, r, c.Request(), name)
	}
}

func newContext() *echo.Context {
	return newEcho().NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
}

func TestAnswer_ErrorIsReturnedAndHandledOnce(t *testing.T) {
	t.Parallel()
	e := echo.New()
	handled := 0
	var seen error
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		handled++
		seen = err
		echo.DefaultHTTPErrorHandler(true)(c, err)
	}
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Contains(t, rec.Body.String(), `"code":"lock_busy"`)
	assert.NotContains(t, rec.Body.String(), "guard:", "though errors are exposed")
	assert.Equal(t, 1, handled)
	var answer *echo.HTTPError
	require.ErrorAs(t, seen, &answer)
	assert.Equal(t, http.StatusConflict, answer.Code)
	assert.Equal(t, http.StatusConflict, echo.StatusCode(fmt.Errorf("outer: %w", seen)))
	assert.ErrorAs(t, seen, new(*guard.BusyError))
	assert.Equal(t, `code=409, message=Resource is busy, err=guard: lock "POST /orders/:id/pay" is busy`, seen.Error())
}

func TestAnswer_KeyFuncMayAnswerAsEchoDoes(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		`"detail":"Idempotency-Key is missing"`:             echo.NewHTTPError(http.StatusForbidden, "Idempotency-Key is missing").Wrap(errors.New("secret")),
		`"detail":"The request does not say which resource`: echo.ErrForbidden,
	} {
		key := func(*echo.Context) (string, error) { return "", err }
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
	for _, own := range []error{nil, errors.New("own"), echo.NewHTTPError(http.StatusTeapot, "own").Wrap(guard.ErrBusy)} {
		assert.Equal(t, own, guardecho.HTTPError(c, own))
	}
	assert.Empty(t, c.Response().Header())
	converted := guardecho.HTTPError(c, guard.ErrBusy)
	assert.Same(t, converted, guardecho.HTTPError(c, converted))
}

// An *echo.HTTPError below 500 is kept as what the Echo sends for it, and is not handled again; any other error has the
// next request run the handler.
func TestOnce_ReturnedHTTPErrorsAreKept(t *testing.T) {
	t.Parallel()
	for status, runs := range map[int]int{http.StatusNotFound: 1, http.StatusUnprocessableEntity: 1, http.StatusConflict: 2, http.StatusBadGateway: 2} {
		e, ran := newEcho(), 0
		e.POST("/pay", func(*echo.Context) error { ran++; return echo.NewHTTPError(status, "no such card") },
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
		return func(c *echo.Context) error { c.Set("tenant", "acme"); return next(c) }
	})
	e.POST("/orders/:id/pay", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), rule))
	byContext := func(c *echo.Context) (string, error) { return guard.JoinKey("order", c.Param("id")), nil }
	e.POST("/stock/:id", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(byContext)))
	fromConfig, err := guardecho.ParseKey("order:{id}")
	require.NoError(t, err)
	e.POST("/files/:id", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(fromConfig)))
	assert.Equal(t, "tenant:acme:order:7", adaptertest.Ask(e, "POST /orders/7/pay"))
	assert.Equal(t, "order:7", adaptertest.Ask(e, "POST /stock/7"))
	assert.Equal(t, "order:7", adaptertest.Ask(e, "POST /files/7"))
	assert.Nil(t, guardecho.Context(httptest.NewRequest(http.MethodPost, "/", nil)))
}
