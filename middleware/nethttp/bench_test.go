package guardhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// The difference between the two is what the middleware costs.
func BenchmarkMiddleware(b *testing.B) {
	g := guardtest.NewGuard(b)
	work := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	handlers := map[string]http.Handler{
		"by hand": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := g.WithLock(r.Context(), guard.Key("order:"+guard.JoinKey(r.PathValue("id"))), func(context.Context) error {
				work(w, r)
				return nil
			})
			if err != nil {
				b.Error(err)
			}
		}),
		"middleware": guardhttp.Middleware(g, guardhttp.Key("order:{id}"))(work),
	}
	for name, h := range handlers {
		h = route(h)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, rec := pay(), httptest.NewRecorder()
			for b.Loop() {
				h.ServeHTTP(rec, r)
			}
		})
	}
}
