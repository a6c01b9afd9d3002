package guardweb_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
)

// Operators may end holds, others see nothing.
func Example() {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := server.Client() // redis.NewClient(…)

	g, err := guard.New(rdb)
	if err != nil {
		panic(err)
	}
	defer g.Close()

	page := guardweb.Handler(inspect.New(rdb),
		guardweb.Leases(g),
		guardweb.Authorize(func(r *http.Request) guardweb.Role {
			if _, password, ok := r.BasicAuth(); ok && password == "open sesame" {
				return guardweb.Act
			}
			return guardweb.None
		}),
	)
	mux := http.NewServeMux()
	mux.Handle("/locks/", page)

	r := httptest.NewRequest(http.MethodGet, "/locks/", nil)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	r.SetBasicAuth("operator", "open sesame")
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// 403
	// 200
}
