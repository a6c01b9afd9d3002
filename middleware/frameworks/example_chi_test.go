package frameworks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

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

type tenantKey struct{}

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := r.Header.Get("Authorization") // a real program verifies a token here
		if tenant == "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant)))
	})
}

func tenantOrder(r *http.Request) (string, error) {
	tenant, ok := r.Context().Value(tenantKey{}).(string)
	if !ok {
		return "", errors.New("no user is signed in")
	}
	return guard.JoinKey("tenant", tenant, "order", r.PathValue("id")), nil
}

func pay(w http.ResponseWriter, r *http.Request) {
	lease, _ := guard.FromContext(r.Context())
	_, _ = fmt.Fprintln(w, "paid under", lease.Key())
}

func postAs(h http.Handler, tenant, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, nil)
	if tenant != "" {
		r.Header.Set("Authorization", tenant)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

// Several routes of chi, inside of authentication. Chi says itself which route a request
// has, and Walk finds a forgotten row.
func Example_chiRoutes() {
	g := newGuard()
	defer g.Close()
	lockOrder := guardhttp.Middleware(g, guardhttp.LockFunc(tenantOrder))
	stock := guardhttp.Middleware(g, guardhttp.Lock("stock:{sku}", guard.NoWait()))

	r := chi.NewRouter()
	r.Use(authenticate)
	r.With(lockOrder).Post("/orders/{id}/pay", pay)
	r.With(lockOrder).Delete("/orders/{id}", pay)
	r.Get("/orders/{id}", pay)
	r.Route("/api", func(r chi.Router) {
		r.With(stock).Post("/stock/{sku}/in", pay)
	})
	err := chi.Walk(r, func(method, route string, _ http.Handler, middleware ...func(http.Handler) http.Handler) error {
		if len(middleware) == 1 { // no more than authenticate
			fmt.Println("no lock:", method, route)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}

	fmt.Print(postAs(r, "acme", "/orders/42/pay").Body)
	fmt.Print(postAs(r, "acme", "/api/stock/7/in").Body)
	fmt.Println(postAs(r, "", "/orders/42/pay").Code)
	// Output:
	// no lock: GET /orders/{id}
	// paid under tenant:acme:order:42
	// paid under stock:7
	// 401
}
