package guardhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	payHandler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := guard.FromContext(r.Context())
		_, _ = fmt.Fprintln(w, "paid under", lease.Key())
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))(payHandler))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
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
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, nil))
		fmt.Print(answer.Body)
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
		err := g.WithLock(r.Context(), guard.Key("stock"), func(context.Context) error {
			fmt.Println("counting")
			return nil
		}, guard.Wait(0))
		if err != nil {
			guardhttp.WriteError(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	answer := httptest.NewRecorder()
	handler(answer, httptest.NewRequest(http.MethodPost, "/stock", nil))
	fmt.Println(answer.Code)
	// Output:
	// counting
	// 204
}

// A key may come from whatever the layers outside of the lock know: here, the user.
func ExampleLockFunc() {
	g := newGuard()
	defer g.Close()

	type tenantKey struct{}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, "acme")))
		})
	}
	tenantOrder := func(r *http.Request) (string, error) {
		tenant, _ := r.Context().Value(tenantKey{}).(string)
		return guard.JoinKey("tenant", tenant, "order", r.PathValue("id")), nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		lease, _ := guard.FromContext(r.Context())
		_, _ = fmt.Fprintln(w, "paid under", lease.Key())
	})
	h := guardhttp.Annotate(g, mux, guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.LockFunc(tenantOrder)})

	answer := httptest.NewRecorder()
	authenticate(h).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
	// Output: paid under tenant:acme:order:42
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

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay?dry_run=1", nil))
	fmt.Print(answer.Body)
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

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
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

	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/accounts/alice/pay/bob", nil))
	fmt.Print(answer.Body)
	// Output: held: true true
}

// A key function of your own comes first.
func ExampleRule_And_function() {
	g := newGuard()
	defer g.Close()

	tenant := func(r *http.Request) (string, error) { return guard.JoinKey("tenant", r.Host), nil }
	guarded := guardhttp.Middleware(g, guardhttp.LockFunc(tenant).And("order:{id}"))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := guard.Held(r.Context(), guard.Key("tenant:example.com"))
		_, _ = fmt.Fprintln(w, "held:", ok)
	})))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
	// Output: held: true
}

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

// The tenant is what authentication found, and not what a client says.
func ExampleRule_Value() {
	g := newGuard()
	defer g.Close()

	type tenantKey struct{}
	tenant := func(r *http.Request) (string, error) {
		name, _ := r.Context().Value(tenantKey{}).(string)
		return name, nil
	}
	rule := guardhttp.Lock("pay:{tenant}:{idempotency-key}").Value("tenant", tenant).Once(24 * time.Hour)
	pay := guardhttp.Middleware(g, rule)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, held := guard.Held(r.Context(), guard.Key("pay:acme:7f9c"))
		_, _ = fmt.Fprintln(w, "held:", held)
	}))

	request := httptest.NewRequest(http.MethodPost, "/pay", nil)
	request.Header.Set("Idempotency-Key", "7f9c")
	answer := httptest.NewRecorder()
	pay.ServeHTTP(answer, request.WithContext(context.WithValue(request.Context(), tenantKey{}, "acme")))
	fmt.Print(answer.Body)
	// Output: held: true
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
	pay := func(key string) {
		request := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
		request.Header.Set("Idempotency-Key", key)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Header().Get("Idempotent-Replayed") == "true")
	}

	pay("7f9c")
	lease, err := g.Acquire(context.Background(), guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())
	pay("7f9c") // its answer is kept, and needs no lock of the order
	pay("1b2d") // another payment of the order
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
		request := httptest.NewRequest(http.MethodPost, "/pay", nil)
		request.Header.Set("X-Tenant", "acme")
		request.Header.Set("Idempotency-Key", "7f9c")
		answer := httptest.NewRecorder()
		pay.ServeHTTP(answer, request)
		fmt.Println(answer.Header().Get("X-Payment-Id"), answer.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// p-1 false
	// p-1 true
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
	for _, body := range []string{
		`{"amount":"7 EUR","sent":"10:00"}`, `{"amount":"7 EUR","sent":"10:01"}`, `{"amount":"8 EUR","sent":"10:02"}`,
	} {
		request := httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader(body))
		request.Header.Set("X-Tenant", "acme")
		request.Header.Set("Idempotency-Key", "7f9c")
		answer := httptest.NewRecorder()
		pay.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// 201 false
	// 201 true
	// 422 false
}
