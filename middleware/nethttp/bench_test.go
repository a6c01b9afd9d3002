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

// The difference to "by hand" is what the middleware costs a request that nobody contends
// with: 24 allocations for Middleware, 15 of them those of a writer that can do what the
// original can, and 26 for Annotate, which asks the mux. Compare medians of many short runs:
// the lock itself takes 10 µs, and what else runs moves that by more.
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
		"Middleware": guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(work),
	}
	for name, h := range handlers {
		handlers[name] = route(h)
	}
	handlers["Annotate"] = guardhttp.Annotate(g, route(work).(*http.ServeMux), guardhttp.Routes{
		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
	})
	for name, h := range handlers {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, rec := pay(), httptest.NewRecorder()
			for b.Loop() {
				h.ServeHTTP(rec, r)
			}
		})
	}
}
