package guardecho_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
)

// The difference between the two is what the middleware costs.
func BenchmarkMiddleware(b *testing.B) {
	g := guardtest.NewGuard(b)
	byHand := echo.New()
	byHand.POST("/orders/:id/pay", func(c echo.Context) error {
		key := guard.Key("order:" + guard.JoinKey(c.Param("id")))
		return g.WithLock(c.Request().Context(), key, func(context.Context) error { return ok(c) })
	})
	guarded := echo.New()
	guarded.POST("/orders/:id/pay", ok, guardecho.Middleware(g, guardecho.Key("order:{id}")))
	for name, h := range map[string]http.Handler{"by hand": byHand, "middleware": guarded} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, rec := httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil), httptest.NewRecorder()
			for b.Loop() {
				h.ServeHTTP(rec, r)
			}
		})
	}
}
