package guardecho_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
	adaptertest.EchoRowsApply(t, e)

	rows["POST /admin/orders/:id/pay"] = guardecho.Lock("order:{id}")
	rows["PATCH /any"] = guardecho.Lock("any")
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

func TestAnnotate_RowForGETIsThatOfTheHEADThatItServes(t *testing.T) {
	t.Parallel()
	e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	e.Use(guardecho.Annotate(guardtest.NewMemoryGuard(t), guardecho.Routes{"GET /list": guardecho.Lock("list")}))
	e.GET("/list", held)
	assert.Equal(t, http.StatusOK, statusOf(e, "HEAD /list"))
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

func TestAnswer_ErrorIsReturnedAndHandledOnce(t *testing.T) {
	t.Parallel()
	e := echo.New()
	var handled []error
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		handled = append(handled, err)
		echo.DefaultHTTPErrorHandler(true)(c, err)
	}
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.NotContains(t, rec.Body.String(), "guard:", "though errors are exposed")
	require.Len(t, handled, 1)
	assert.Equal(t, http.StatusConflict, echo.StatusCode(fmt.Errorf("outer: %w", handled[0])))
	assert.ErrorAs(t, handled[0], new(*guard.BusyError))
	assert.EqualError(t, handled[0], `code=409, message=Resource is busy, err=guard: lock "POST /orders/:id/pay" is busy`)
}

func TestAnswer_KeyFuncMayAnswerAsEchoDoes(t *testing.T) {
	t.Parallel()
	adaptertest.KeyErrors(t, build, map[string]error{
		"Idempotency-Key is missing":              echo.NewHTTPError(http.StatusForbidden, "Idempotency-Key is missing").Wrap(errors.New("secret")),
		"The request does not say which resource": echo.ErrForbidden,
	})
}

func TestHTTPError_LeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	c := newEcho().NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
	for _, own := range []error{nil, errors.New("own"), echo.NewHTTPError(http.StatusTeapot, "own").Wrap(guard.ErrBusy)} {
		assert.Equal(t, own, guardecho.HTTPError(c, own))
	}
	assert.Empty(t, c.Response().Header())
	converted := guardecho.HTTPError(c, guard.ErrBusy)
	assert.Same(t, converted, guardecho.HTTPError(c, converted))
}

// An *echo.HTTPError below 500 is kept as what the Echo sends for it, and is not handled again.
func TestOnce_ReturnedHTTPErrorsAreKept(t *testing.T) {
	t.Parallel()
	adaptertest.OnceErrors(t, build, func(status int) error { return echo.NewHTTPError(status, "no such card") })
}

func TestKeyFunc_GetsTheContextOfItsRequest(t *testing.T) {
	t.Parallel()
	_, err := guardecho.ParseKey("order:{")
	assert.Error(t, err)
	byTemplate, err := guardecho.ParseKey("order:{id}")
	require.NoError(t, err)
	byContext := func(c *echo.Context) (string, error) { return guard.JoinKey("order", c.Param("id")), nil }
	for _, key := range []guardecho.KeyFunc{byTemplate, byContext} {
		e := echo.New()
		e.POST("/orders/:id/pay", showKey, guardecho.Middleware(guardtest.NewMemoryGuard(t), guardecho.LockFunc(key)))
		assert.Equal(t, "order:7", adaptertest.Ask(e, "POST /orders/7/pay"))
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
