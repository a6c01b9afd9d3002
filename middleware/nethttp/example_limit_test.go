package guardhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redlatch/redlatch/guard"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Three exports at a time for each tenant; the fourth is told to come back.
func ExampleLock_limit() {
	g := newGuard()
	defer g.Close()

	export := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "exported") })
	atMost3 := guardhttp.Lock("export:{header:X-Tenant}", guard.Limit(3), guard.NoWait())
	h := guardhttp.Middleware(g, atMost3.BusyStatus(http.StatusTooManyRequests))(export)

	request := httptest.NewRequest(http.MethodPost, "/exports", nil)
	request.Header.Set("X-Tenant", "acme")
	for range 3 {
		_, _ = g.Acquire(context.Background(), guard.Key("export:acme"), guard.Limit(3))
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	fmt.Println(answer.Code)
	// Output: 429
}
