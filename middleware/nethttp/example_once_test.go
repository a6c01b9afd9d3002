package guardhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	charges := 0
	payHandler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "charge %d", charges)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g,
		guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(24*time.Hour))(payHandler))

	pay := func(body string) {
		request := httptest.NewRequest(http.MethodPost, "/orders/42/pay", strings.NewReader(body))
		request.Header.Set("X-Tenant", "acme")
		request.Header.Set("Idempotency-Key", "7f9c")
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Header().Get("Idempotent-Replayed") == "true", strings.Contains(answer.Body.String(), "charge 1"))
	}
	pay("70 EUR")
	pay("70 EUR") // the client did not get the answer, and asks again
	pay("80 EUR")
	// Output:
	// 201 false true
	// 201 true true
	// 422 false false
}
