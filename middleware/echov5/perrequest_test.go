package guardecho_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"weak"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

// Nothing is made anew where middleware is applied.
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
			e.HTTPErrorHandler(c, err)
		}
		require.Equal(t, status, rec.Code)
		return weak.Make(mark)
	}
	served, refused := serve(http.StatusNoContent, "7"), serve(http.StatusBadRequest, "")
	runtime.GC()
	assert.Nil(t, served.Value())
	assert.Nil(t, refused.Value())
}
