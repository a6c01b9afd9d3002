package guardhttp_test

import (
	"context"
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
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Key("order:{id}"))(payHandler))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
	// Output: paid under order:42
}

func ExampleMiddleware_busy() {
	g := newGuard()
	defer g.Close()
	lease, err := g.Acquire(context.Background(), guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())

	guarded := guardhttp.Middleware(g, guardhttp.Key("order:{id}"), guardhttp.With(guard.NoWait()))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guarded(http.NotFoundHandler()))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Println(answer.Code, answer.Header().Get("Retry-After") != "")
	fmt.Println(strings.Contains(answer.Body.String(), `"code":"lock_busy"`))
	// Output:
	// 409 true
	// true
}

func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()

	// Any router. This one hands out nothing but the URL as it is.
	router := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, locked := guard.FromContext(r.Context())
		if !locked {
			_, _ = fmt.Fprintln(w, r.URL.EscapedPath(), "without a lock")
			return
		}
		_, _ = fmt.Fprintln(w, r.URL.EscapedPath(), "under", lease.Key())
	})
	order := guardhttp.Lock("order:{id}", guard.Wait(time.Second))
	h := guardhttp.Annotate(g, router, guardhttp.Routes{
		"POST /orders/{id}/pay": order.With(guardhttp.BusyStatus(http.StatusLocked)),
		"DELETE /orders/{id}":   order,
	}, guardhttp.With(guard.TTL(10*time.Second)))

	for _, path := range []string{"/orders/42/pay", "/orders/%34%32/pay", "/orders/42/look"} {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, nil))
		fmt.Print(answer.Body)
	}
	// Output:
	// /orders/42/pay under order:42
	// /orders/%34%32/pay under order:42
	// /orders/42/look without a lock
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

// A router's own middleware comes first: here the one that knows who asks.
func ExampleRoutes_Middleware() {
	g := newGuard()
	defer g.Close()

	type tenantKey struct{}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, "acme")))
		})
	}
	lock := guardhttp.Routes{
		"POST /orders/{id}/pay": {Key: func(r *http.Request) (string, error) {
			tenant, _ := r.Context().Value(tenantKey{}).(string)
			return guard.JoinKey("tenant", tenant, "order", r.PathValue("id")), nil
		}},
	}.Middleware(g)

	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		lease, _ := guard.FromContext(r.Context())
		_, _ = fmt.Fprintln(w, "paid under", lease.Key())
	})
	answer := httptest.NewRecorder()
	authenticate(lock(mux)).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
	// Output: paid under tenant:acme:order:42
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
	// Output: guardhttp: row "POST /orders/{id}/shp": the mux has no route for it
}

// A transfer locks both accounts, or none: in one order, whichever way the money goes.
func ExampleRule_And() {
	g := newGuard()
	defer g.Close()

	transfer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, from := guard.Held(r.Context(), "account:alice")
		_, to := guard.Held(r.Context(), "account:bob")
		_, _ = fmt.Fprintln(w, "held:", from, to)
	})
	h := guardhttp.Annotate(g, transfer, guardhttp.Routes{
		"POST /accounts/{from}/pay/{to}": guardhttp.Lock("account:{from}").And("account:{to}"),
	})

	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/accounts/alice/pay/bob", nil))
	fmt.Print(answer.Body)
	// Output: held: true true
}

func ExampleAnd() {
	g := newGuard()
	defer g.Close()

	// Each request also locks the tenant, whom no template can name.
	tenant := func(r *http.Request) (string, error) { return guard.JoinKey("tenant", r.Host), nil }
	guarded := guardhttp.Middleware(g, guardhttp.Key("order:{id}"), guardhttp.And(tenant))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, ok := guard.Held(r.Context(), "tenant:example.com")
		_, _ = fmt.Fprintln(w, "held:", ok)
	})))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
	// Output: held: true
}
