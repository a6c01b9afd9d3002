package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// routes stands for those of a program.
func routes(g *guard.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(http.NotFoundHandler()))
	return mux
}

// The test in docs/guides/http.md.
func TestGuide_ABusyRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another request has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		answer := httptest.NewRecorder()
		routes(g).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)) // waits 2 s of the bubble
		if answer.Code != http.StatusConflict {
			t.Errorf("got %d, want 409", answer.Code)
		}
	})
}

// The test in docs/guides/idempotency-keys.md.
func TestGuide_ARouteWithOnce(t *testing.T) {
	g := guardtest.NewMemoryGuard(t)
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	handler := guardhttp.Middleware(g, guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(time.Hour))(pay)
	var n atomic.Int64
	guardtest.Idempotent(t, handler, func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/orders/42/pay", strings.NewReader("70 EUR"))
		r.Header.Set("X-Tenant", "acme")
		r.Header.Set("Idempotency-Key", strconv.FormatInt(n.Add(1), 10)) // always a new key
		return r
	})
}
