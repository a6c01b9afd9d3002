package guardhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Paths of patterns, each more specific than those before it.
var nestedPaths = []string{"/", "/orders/", "/orders/{id}/pay", "/orders/new/pay"}

// What else a pattern may have.
var (
	patternMethods = []string{"", "GET", "HEAD", "POST"}
	patternHosts   = []string{"", "example.com", "other.example"}
)

// eachPattern calls do with every method, host and path that a pattern can be made of.
func eachPattern(do func(pattern string, specificity int)) {
	for _, method := range patternMethods {
		for _, host := range patternHosts {
			for specificity, path := range nestedPaths {
				pattern := host + path
				if method != "" {
					pattern = method + " " + pattern
				}
				do(pattern, specificity)
			}
		}
	}
}

// lockState says whether the request ran under a lock.
var lockState = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, held := guard.FromContext(r.Context())
	w.Header().Set("Held", fmt.Sprint(held))
})

// serves gives the answer of h, and whether it came from lockState.
func serves(h http.Handler, method, host, path string) (held string, served bool) {
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	h.ServeHTTP(rec, r)
	held = rec.Header().Get("Held")
	return held, held != ""
}

// A row applies to what the mux serves, unless the mux has a more specific path for it.
// Whatever method or host either pattern names beyond that changes nothing.
func TestOnlyAMoreSpecificPathMakesARowYield(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	key := func(*http.Request) (string, error) { return "key", nil }
	eachPattern(func(row string, rowSpecificity int) {
		alone := http.NewServeMux()
		alone.Handle(row, lockState)
		lock := guardhttp.Routes{row: {Key: key}}.Middleware(g)
		eachPattern(func(route string, routeSpecificity int) {
			mux := http.NewServeMux()
			mux.Handle(route, lockState)
			nested := http.NewServeMux()
			nested.Handle("/", mux)
			direct, inside, wrapped := lock(mux), lock(nested), lock(http.HandlerFunc(mux.ServeHTTP))
			for _, method := range []string{"HEAD", "POST"} {
				for _, host := range []string{"example.com", "third.example:80"} {
					for _, path := range []string{"/orders/7/pay", "/orders/new/pay"} {
						request := []any{"row %q, route %q: %s %s%s", row, route, method, host, path}
						_, listed := serves(alone, method, host, path)
						if _, served := serves(mux, method, host, path); !served {
							_, served = serves(direct, method, host, path)
							assert.False(t, served, request...)
							continue
						}
						want := fmt.Sprint(listed && routeSpecificity <= rowSpecificity)
						held, _ := serves(direct, method, host, path)
						assert.Equal(t, want, held, request...)
						held, _ = serves(inside, method, host, path)
						assert.Equal(t, want, held, request...)
						held, _ = serves(wrapped, method, host, path)
						assert.Equal(t, fmt.Sprint(listed), held, request...)
					}
				}
			}
		})
	})
}

// What the mux answers by itself is not what the row is for.
func TestAnswersOfTheMuxItselfNeedNoLock(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewGuard(t, guard.Observe(recorder))
	mux := http.NewServeMux()
	mux.Handle("POST /till/", lockState)
	mux.Handle("GET /orders/{id}", lockState)
	inner := http.NewServeMux()
	inner.Handle("POST /shop/{id}", lockState)
	mux.Handle("/shop/", inner)
	h := guardhttp.Annotate(g, mux, guardhttp.Routes{
		"/{what}":          guardhttp.Lock("{what}"),
		"/orders/{id}":     guardhttp.Lock("order:{id}"),
		"/shop/{id}":       guardhttp.Lock("shop:{id}"),
		"/shop/{id}/{sub}": guardhttp.Lock("shop:{id}"),
	})
	for request, want := range map[string]string{
		"POST /till":          "Temporary Redirect", // to /till/
		"GET /till":           "Method Not Allowed",
		"POST /orders/7":      "Method Not Allowed",
		"GET /orders//7":      "Temporary Redirect", // to the cleaned path
		"GET /orders/x/../7":  "Temporary Redirect",
		"GET /elsewhere":      "Not Found",
		"POST /shop/7/x":      "Not Found", // by the mux inside
		"DELETE /shop/7":      "Method Not Allowed",
		"GET /shop/7?a=b/../": "Method Not Allowed",
	} {
		assert.Equal(t, want, ask(h, request), request)
	}
	assert.Empty(t, recorder.Observations("WaitStart"))
	assert.Empty(t, ask(h, "HEAD /orders/7"), "served by the pattern for GET")
	assert.Len(t, recorder.Observations("WaitStart"), 1)
}

func TestWhatIsKnownOfARouteDoesNotDependOnWhoAskedFirst(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/till/", lockState)
	h := guardhttp.Annotate(guardtest.NewGuard(t), mux, guardhttp.Routes{"/{what...}": guardhttp.Lock("{what}")})
	assert.Equal(t, "Temporary Redirect", ask(h, "POST /till"))
	held, _ := serves(h, "POST", "example.com", "/till/x")
	assert.Equal(t, "false", held, "the path of the route is more specific")
}
