package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// FuzzAnnotate checks that whatever a request is, it either reaches next, once, or is
// answered, and that nothing panics.
func FuzzAnnotate(f *testing.F) {
	f.Add("POST", "example.com", "/orders/7/pay", "", "")
	f.Add("GET", "", "/orders/a/b/pay", "/orders/a%2Fb/pay", "")
	f.Add("POST", "example.com", "/orders/7/pay", "", "*")
	f.Add("CONNECT", "h:80", "", "", "*")
	f.Add("", "[::1", "*", "", "*")
	f.Add("OPTIONS", "shop.example.com.", "//..", "/%2f%zz/..", "//..")
	g := guardtest.NewGuard(f)
	served := 0
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := guard.FromContext(r.Context()); !ok {
			f.Error("served without a lock")
		}
		served++
	})
	mux := http.NewServeMux()
	rows := guardhttp.Routes{
		"/":                            guardhttp.Lock("any"),
		"/orders/{id}/{what...}":       guardhttp.Lock("order:{id}:{what}"),
		"POST /orders/{id}/pay":        guardhttp.Lock("order:{id}"),
		"CONNECT h/x":                  guardhttp.Lock("x"),
		"GET shop.example.com/{$}":     guardhttp.Lock("shop"),
		"POST /orders/new/pay/{rest}/": guardhttp.Lock("new:{rest}"),
	}
	for pattern := range rows {
		mux.Handle(pattern, next)
	}
	h := guardhttp.Annotate(g, mux, rows)
	f.Fuzz(func(t *testing.T, method, host, path, rawPath, requestURI string) {
		served = 0
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, &http.Request{
			Method: method, Host: host, URL: &url.URL{Path: path, RawPath: rawPath}, RequestURI: requestURI,
			Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		})
		answered := rec.Code != http.StatusOK
		if served > 1 || (served == 1) == answered {
			t.Fatalf("served %d times, and answered %d", served, rec.Code)
		}
	})
}
