package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// FuzzAnnotate checks that whatever a request is, it either reaches next, once, or is
// answered, and that nothing panics. Both a mux and another handler are behind the rows.
func FuzzAnnotate(f *testing.F) {
	f.Add("POST", "example.com", "/orders/7/pay", "", "")
	f.Add("GET", "", "/orders/a/b/pay", "/orders/a%2Fb/pay", "")
	f.Add("POST", "example.com", "/orders/7/pay", "", "*")
	f.Add("CONNECT", "h:80", "", "", "*")
	f.Add("", "[::1", "*", "", "*")
	f.Add("OPTIONS", "shop.example.com.", "//..", "/%2f%zz/..", "//..")
	g := guardtest.NewGuard(f)
	served := 0
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.Handle("POST /orders/{order}/pay", next)
	rows := guardhttp.Routes{
		"/":                            guardhttp.Lock("any"),
		"/orders/{id}/{what...}":       guardhttp.Lock("order:{id}:{what}"),
		"POST /orders/{id}/pay":        guardhttp.Lock("order:{id}"),
		"CONNECT h/x":                  guardhttp.Lock("x"),
		"GET shop.example.com/{$}":     guardhttp.Lock("shop"),
		"POST /orders/new/pay/{rest}/": guardhttp.Lock("new:{rest}"),
	}
	handlers := []http.Handler{guardhttp.Annotate(g, mux, rows), guardhttp.Annotate(g, next, rows)}
	f.Fuzz(func(t *testing.T, method, host, path, rawPath, requestURI string) {
		for i, h := range handlers {
			served = 0
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, &http.Request{
				Method: method, Host: host, URL: &url.URL{Path: path, RawPath: rawPath}, RequestURI: requestURI,
				Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			})
			answered := rec.Code != http.StatusOK
			if served > 1 || (served == 1) == answered {
				t.Fatalf("handler %d: served %d times, and answered %d", i, served, rec.Code)
			}
		}
	})
}
