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

// The difference to "by hand" is what the middleware costs a request that nobody contends
// with: 26 allocations for Middleware and 25 for Annotate, most of them those of a writer
// that can do what the original can. Compare medians of many short runs: the lock itself
// takes 10 µs, and what else runs moves that by more.
func BenchmarkMiddleware(b *testing.B) {
	g := guardtest.NewGuard(b)
	byHand := echo.New()
	byHand.POST("/orders/:id/pay", func(c echo.Context) error {
		key := guard.Key("order:" + guard.JoinKey(c.Param("id")))
		return g.WithLock(c.Request().Context(), key, func(context.Context) error { return ok(c) })
	})
	guarded := echo.New()
	guarded.POST("/orders/:id/pay", ok, guardecho.Middleware(g, guardecho.Lock("order:{id}")))
	annotated := echo.New()
	annotated.Use(guardecho.Annotate(g, guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}))
	annotated.POST("/orders/:id/pay", ok)
	for name, h := range map[string]http.Handler{"by hand": byHand, "Middleware": guarded, "Annotate": annotated} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, rec := httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil), httptest.NewRecorder()
			for b.Loop() {
				h.ServeHTTP(rec, r)
			}
		})
	}
}
