package frameworks_test

import (
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

func pay(w http.ResponseWriter, r *http.Request) {
	lease, _ := guard.FromContext(r.Context())
	_, _ = fmt.Fprintln(w, "paid under", lease.Key())
}

// Several routes of chi. Chi says itself which route a request has, and Walk finds a forgotten lock.
func Example_chiRoutes() {
	g := newGuard()
	defer g.Close()
	lockOrder := guardhttp.Middleware(g, guardhttp.Lock("order:{id}"))

	r := chi.NewRouter()
	r.With(lockOrder).Post("/orders/{id}/pay", pay)
	r.With(lockOrder).Delete("/orders/{id}", pay)
	r.Get("/orders/{id}", pay)
	err := chi.Walk(r, func(method, route string, _ http.Handler, middleware ...func(http.Handler) http.Handler) error {
		if len(middleware) == 0 {
			fmt.Println("no lock:", method, route)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Print(answer.Body)
	// Output:
	// no lock: GET /orders/{id}
	// paid under order:42
}
