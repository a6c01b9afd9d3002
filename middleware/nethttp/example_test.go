package guardhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// newGuard stands for guard.New(redisClient).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

// post sends a request, and returns the answer.
func post(h http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, nil))
	return answer
}

// payOnce sends a request of the tenant acme with an idempotency key, and prints the status, and whether the answer is
// that of an earlier request.
func payOnce(h http.Handler, key, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "/orders/42/pay", strings.NewReader(body))
	request.Header.Set("X-Tenant", "acme")
	request.Header.Set("Idempotency-Key", key)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Header().Get("Idempotent-Replayed") == "true")
	return answer
}

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	payHandler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := guard.FromContext(r.Context())
		_, _ = fmt.Fprintln(w, "paid under", lease.Key())
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(payHandler))

	fmt.Print(post(mux, "/orders/42/pay").Body)
	// Output: paid under order:42
}

func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()

	mux := http.NewServeMux()
	for _, pattern := range []string{"POST /orders/{id}/pay", "DELETE /orders/{id}", "POST /orders/{id}/look"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_, locked := guard.Held(r.Context(), guard.Key("order:42"))
			_, _ = fmt.Fprintln(w, r.URL.EscapedPath(), locked)
		})
	}
	order := guardhttp.Lock("order:{id}", guard.Wait(time.Second))
	h := guardhttp.Annotate(g, mux, guardhttp.Routes{
		"POST /orders/{id}/pay": order.BusyStatus(http.StatusLocked),
		"DELETE /orders/{id}":   order,
	})

	for _, path := range []string{"/orders/42/pay", "/orders/%34%32/pay", "/orders/42/look"} {
		fmt.Print(post(h, path).Body)
	}
	// Output:
	// /orders/42/pay true
	// /orders/%34%32/pay true
	// /orders/42/look false
}

func ExampleParseKey() {
	_, err := guardhttp.ParseKey("order:{id")
	fmt.Println(err)
	// Output: guardhttp: key template "order:{id": column 7: '{' without '}'
}

func ExampleWriteError() {
	g := newGuard()
	defer g.Close()

	handler := func(w http.ResponseWriter, r *http.Request) {
		err := g.WithLock(r.Context(), guard.Key("stock"), func(context.Context) error { return nil }, guard.NoWait())
		if err != nil {
			guardhttp.WriteError(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	fmt.Println(post(http.HandlerFunc(handler), "/stock").Code)
	// Output: 204
}

// A key may come from whatever the request has: here, the host. Keys of templates may follow.
func ExampleLockFunc() {
	g := newGuard()
	defer g.Close()

	tenant := func(r *http.Request) (string, error) { return guard.JoinKey("tenant", r.Host), nil }
	guarded := guardhttp.Middleware(g, guardhttp.LockFunc(tenant).And("order:{id}"))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := guard.Held(r.Context(), guard.Key("tenant:example.com"))
		_, _ = fmt.Fprintln(w, "held:", ok)
	})))

	fmt.Print(post(mux, "/orders/42/pay").Body)
	// Output: held: true
}

// Requests that say they change nothing need no lock.
func ExampleRule_Unlocked() {
	g := newGuard()
	defer g.Close()

	rule := guardhttp.Lock("order:{id}").Unlocked(func(r *http.Request) bool { return r.URL.Query().Get("dry_run") == "1" })
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, rule)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, locked := guard.FromContext(r.Context())
		_, _ = fmt.Fprintln(w, "locked:", locked)
	})))

	fmt.Print(post(mux, "/orders/42/pay?dry_run=1").Body)
	// Output: locked: false
}

// An own page for a busy order, and the usual answer for all else.
func ExampleRule_OnError() {
	g := newGuard()
	defer g.Close()

	rule := guardhttp.Lock("order:{id}", guard.NoWait()).OnError(func(w http.ResponseWriter, r *http.Request, err error) {
		if errors.Is(err, guard.ErrBusy) {
			http.Error(w, "This order is being paid.", http.StatusConflict)
			return
		}
		guardhttp.WriteError(w, r, err)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, rule)(http.NotFoundHandler()))
	lease, err := g.Acquire(context.Background(), guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())

	fmt.Print(post(mux, "/orders/42/pay").Body)
	// Output: This order is being paid.
}

// A row that nothing matches would lock nothing, so a program looks before it serves.
func ExampleCheck() {
	routes := guardhttp.Routes{
		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
		"POST /orders/{id}/shp": guardhttp.Lock("order:{id}"),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/pay", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /orders/{id}/ship", func(http.ResponseWriter, *http.Request) {})

	fmt.Println(guardhttp.Check(mux, routes))
	// Output: guardhttp: row "POST /orders/{id}/shp": the mux has no such pattern
}

// A transfer locks both accounts, or none: in one order, whichever way the money goes.
func ExampleRule_And() {
	g := newGuard()
	defer g.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("POST /accounts/{from}/pay/{to}", func(w http.ResponseWriter, r *http.Request) {
		_, from := guard.Held(r.Context(), guard.Key("account:alice"))
		_, to := guard.Held(r.Context(), guard.Key("account:bob"))
		_, _ = fmt.Fprintln(w, "held:", from, to)
	})
	h := guardhttp.Annotate(g, mux, guardhttp.Routes{
		"POST /accounts/{from}/pay/{to}": guardhttp.Lock("account:{from}").And("account:{to}"),
	})

	fmt.Print(post(h, "/accounts/alice/pay/bob").Body)
	// Output: held: true true
}

func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	charges := 0
	payHandler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g,
		guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(24*time.Hour))(payHandler))

	payOnce(mux, "7f9c", "70 EUR")
	payOnce(mux, "7f9c", "70 EUR") // the client did not get the answer, and asks again
	payOnce(mux, "7f9c", "80 EUR")
	fmt.Println("charges:", charges)
	// Output:
	// 201 false
	// 201 true
	// 422 false
	// charges: 1
}

// The tenant is what authentication found, and not what a client says.
func ExampleRule_Value() {
	g := newGuard()
	defer g.Close()

	type tenantKey struct{}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, "acme")))
		})
	}
	tenant := func(r *http.Request) (string, error) {
		name, _ := r.Context().Value(tenantKey{}).(string)
		return name, nil
	}
	rule := guardhttp.Lock("pay:{tenant}:{idempotency-key}").Value("tenant", tenant).Once(24 * time.Hour)
	pay := guardhttp.Middleware(g, rule)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, held := guard.Held(r.Context(), guard.Key("pay:acme:7f9c"))
		fmt.Println("held:", held)
	}))
	payOnce(authenticate(pay), "7f9c", "")
	// Output:
	// held: true
	// 200 false
}

// One payment of an order at a time, whatever the key of the request is, and the first answer for each request that
// comes again.
func ExampleRule_Once_and() {
	g := newGuard()
	defer g.Close()

	tenant := func(*http.Request) (string, error) { return "acme", nil } // of your authentication
	rule := guardhttp.Lock("pay:{tenant}:{idempotency-key}", guard.NoWait()).Value("tenant", tenant).Once(24 * time.Hour).And("order:{id}")
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, rule)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})))
	payOnce(mux, "7f9c", "")
	lease, err := g.Acquire(context.Background(), guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())
	payOnce(mux, "7f9c", "") // its answer is kept, and needs no lock of the order
	payOnce(mux, "1b2d", "") // another payment of the order
	// Output:
	// 201 false
	// 201 true
	// 409 false
}

func ExampleRule_Headers() {
	g := newGuard()
	defer g.Close()

	rule := guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(24 * time.Hour).Headers("X-Payment-Id")
	pay := guardhttp.Middleware(g, rule)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Payment-Id", "p-1")
	}))
	for range 2 {
		fmt.Println(payOnce(pay, "7f9c", "").Header().Get("X-Payment-Id"))
	}
	// Output:
	// 200 false
	// p-1
	// 200 true
	// p-1
}

// Each attempt has a body of its own, as it says when it was sent: only the amount tells payments apart.
func ExampleRule_FingerprintFunc() {
	g := newGuard()
	defer g.Close()

	amount := func(r *http.Request) ([]byte, error) {
		var sent struct{ Amount string }
		err := json.NewDecoder(r.Body).Decode(&sent)
		return []byte(sent.Amount), err
	}
	rule := guardhttp.Lock("pay:{header:X-Tenant}:{idempotency-key}").Once(24 * time.Hour).FingerprintFunc(amount)
	pay := guardhttp.Middleware(g, rule)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	payOnce(pay, "7f9c", `{"amount":"7 EUR","sent":"10:00"}`)
	payOnce(pay, "7f9c", `{"amount":"7 EUR","sent":"10:01"}`)
	payOnce(pay, "7f9c", `{"amount":"8 EUR","sent":"10:02"}`)
	// Output:
	// 201 false
	// 201 true
	// 422 false
}

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
