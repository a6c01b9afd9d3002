// Command chi pays orders by chi.
package main

import (
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/redlatch/redlatch/middleware/frameworks/programs/internal/slow"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func main() {
	order := guardhttp.Middleware(slow.Guard(), guardhttp.Lock("order:{id}"))
	r := chi.NewRouter()
	r.With(order).Post("/orders/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		slow.Work(r.Context())
		_, _ = w.Write([]byte("paid"))
	})
	log.Fatal(http.Serve(slow.Listen(), r)) //nolint:gosec // a test's server needs no timeouts
}
