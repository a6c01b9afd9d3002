package guardecho_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
)

func TestAnswer_ErrorIsBareAndHandledOnce(t *testing.T) {
	t.Parallel()
	e := echo.New()
	handled := 0
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		handled++
		e.DefaultHTTPErrorHandler(err, c)
	}
	var seen error
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			seen = next(c)
			return seen
		}
	})
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.Equal(t, 1, handled)

	bare, ok := seen.(*echo.HTTPError) //nolint:errorlint // that it is bare is the point
	require.True(t, ok)
	assert.Equal(t, http.StatusConflict, bare.Code)
	var why *guard.BusyError
	assert.ErrorAs(t, seen, &why)
	assert.ErrorIs(t, seen, guard.ErrBusy)
	assert.Equal(t, `code=409, message=Resource is busy, internal=guard: lock "POST /orders/:id/pay" is busy`, seen.Error())
}

func TestAnswer_ApplicationsErrorHandlerIsFree(t *testing.T) {
	t.Parallel()
	g := busy(t)
	for name, row := range map[string]struct {
		handler echo.HTTPErrorHandler
		want    string
	}{
		"page": {func(_ error, c echo.Context) { _ = c.HTML(http.StatusConflict, "<p>busy") }, "text/html; charset=UTF-8"},
		"redirect with JSON": {
			func(_ error, c echo.Context) { _ = c.JSON(http.StatusOK, map[string]bool{"busy": true}) }, "application/json",
		},
	} {
		e := echo.New()
		e.HTTPErrorHandler = row.handler
		e.POST("/orders/:id/pay", ok, guardecho.Middleware(g, guardecho.Lock("order:{id}", guard.NoWait())))
		assert.Equal(t, row.want, call(e, "POST", "/orders/7/pay").Header().Get("Content-Type"), name)
	}
}

func TestAnswer_DebugModeKeepsTheProblem(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Debug = true
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Contains(t, rec.Body.String(), `"code": "lock_busy"`)
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
		e.POST("/", ok, guardecho.Middleware(guardtest.NewGuard(t), guardecho.LockFunc(key)))
		rec := call(e, "POST", "/")
		assert.Equal(t, http.StatusForbidden, rec.Code)
		assert.Contains(t, rec.Body.String(), want)
		assert.Contains(t, rec.Body.String(), `"code":"lock_key_invalid"`)
		assert.NotContains(t, rec.Body.String(), "secret")
	}
}

func TestAnswer_HTTPErrorForLocksTakenInCode(t *testing.T) {
	t.Parallel()
	e := echo.New()
	c := e.NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
	assert.NoError(t, guardecho.HTTPError(c, nil))
	own := errors.New("own")
	assert.Same(t, own, guardecho.HTTPError(c, own))
	answer := echo.NewHTTPError(http.StatusTeapot).SetInternal(guard.ErrBusy)
	assert.Same(t, answer, guardecho.HTTPError(c, answer))
	assert.Empty(t, c.Response().Header())
}
