package guardecho_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

func TestAnswer_ErrorIsReturnedAndHandledOnce(t *testing.T) {
	t.Parallel()
	e := echo.New()
	handled := 0
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		handled++
		echo.DefaultHTTPErrorHandler(false)(c, err)
	}
	var seen error
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			seen = next(c)
			return seen
		}
	})
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.Equal(t, 1, handled)

	var answer *echo.HTTPError
	require.ErrorAs(t, seen, &answer)
	assert.Equal(t, http.StatusConflict, answer.Code)
	assert.Equal(t, http.StatusConflict, echo.StatusCode(fmt.Errorf("outer: %w", seen)))
	var why *guard.BusyError
	assert.ErrorAs(t, seen, &why)
	assert.ErrorIs(t, seen, guard.ErrBusy)
	assert.Equal(t, `code=409, message=Resource is busy, err=guard: lock "POST /orders/:id/pay" is busy`, seen.Error())
}

func TestAnswer_ExposedErrorsKeepTheProblem(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.HTTPErrorHandler = echo.DefaultHTTPErrorHandler(true)
	e.POST("/orders/:id/pay", ok, guardecho.Middleware(busy(t), guardecho.Lock("order:{id}", guard.NoWait())))
	rec := call(e, "POST", "/orders/7/pay")
	assert.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	assert.Contains(t, rec.Body.String(), `"code":"lock_busy"`)
	assert.NotContains(t, rec.Body.String(), "guard:")
}

func TestAnswer_KeyFuncMayAnswerAsEchoDoes(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		`"detail":"Idempotency-Key is missing"`:             echo.NewHTTPError(http.StatusForbidden, "Idempotency-Key is missing").Wrap(errors.New("secret")),
		`"detail":"The request does not say which resource`: echo.ErrForbidden,
	} {
		key := func(*echo.Context) (string, error) { return "", err }
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
	answer := echo.NewHTTPError(http.StatusTeapot, "own").Wrap(guard.ErrBusy)
	assert.Same(t, answer, guardecho.HTTPError(c, answer))
	assert.Empty(t, c.Response().Header())
	converted := guardecho.HTTPError(c, guard.ErrBusy)
	assert.Same(t, converted, guardecho.HTTPError(c, converted))
}
