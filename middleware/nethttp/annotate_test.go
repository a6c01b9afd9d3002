package guardhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

var (
	ask       = adaptertest.Ask
	panicText = adaptertest.PanicText
	showKey   = http.HandlerFunc(adaptertest.KeyOrNone)
)

// muxOf serves patterns by showKey.
func muxOf(patterns ...string) *http.ServeMux {
	mux := http.NewServeMux()
	for _, pattern := range patterns {
		mux.Handle(pattern, showKey)
	}
	return mux
}

// A row applies to what the mux serves by its pattern, and to nothing else.
func TestAnnotate_TheMuxSaysWhichRowApplies(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	mux := muxOf("POST /orders/{id}/pay", "POST /orders/new/pay", "/orders/{id}/{what}", "GET /stock/{sku}", "POST /files/{path...}",
		"POST shop.example.com/till", "/admin/", "POST /{$}", "POST /sums/")
	h := guardhttp.Annotate(guardtest.NewMemoryGuard(t, guard.Observe(recorder)), mux, guardhttp.Routes{
		"POST /orders/{id}/pay":      guardhttp.Lock("order:{id}"),
		"GET /stock/{sku}":           guardhttp.Lock("stock:{sku}"),
		"POST /files/{path...}":      guardhttp.Lock("file:{path}"),
		"POST shop.example.com/till": guardhttp.Lock("till"),
		"/admin/":                    guardhttp.Lock("admin"),
		"POST /{$}":                  guardhttp.Lock("root"),
		"POST /orders/old/pay":       guardhttp.Lock("old"), // the mux does not have it
		"POST /sums/":                guardhttp.Lock("sums"),
	})
	locked := 0
	for request, want := range map[string]string{
		"POST /orders/7/pay":                   "order:7",
		"POST /orders/a%2Fb/pay":               "order:a/b",
		"POST /orders/old/pay":                 "order:old",
		"POST /orders/new/pay":                 "none",
		"PUT /orders/7/pay":                    "none",
		"HEAD /stock/x":                        "stock:x",
		"POST /files/a/b":                      "file:a/b",
		"POST http://shop.example.com/till":    "till",
		"POST http://shop.example.com:80/till": "till",
		"PUT /admin/x/y":                       "admin",
		"POST /":                               "root",
		"POST /nope":                           "Not Found",
		"PUT /stock/x":                         "Method Not Allowed",
		"POST /sums":                           "Temporary Redirect", // by the mux, without a lock
		"POST /files/..//report.txt":           "Temporary Redirect",
		"POST /orders/x/../7/pay":              "Temporary Redirect",
	} {
		answer := strings.Replace(ask(h, request), "Moved Permanently", "Temporary Redirect", 1) // as Go 1.25 has it
		assert.Equal(t, want, answer, request)
		if strings.ToLower(want[:1]) == want[:1] && want != "none" {
			locked++
		}
	}
	assert.Len(t, recorder.Observations("WaitStart"), locked, "what the mux answers by itself needs no lock")
}

func TestAnnotate_OuterLayersSeeThePatternOfARefusedRequestToo(t *testing.T) {
	t.Parallel()
	h := guardhttp.Annotate(adaptertest.Busy(t), muxOf("POST /orders/{id}/pay"), guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.Lock("order:{id}", guard.NoWait())})
	r, rec := pay(), httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	assert.Equal(t, http.StatusConflict, rec.Code)
	assert.Equal(t, "POST /orders/{id}/pay", r.Pattern)
}

func TestAnnotate_MalformedRowsAreRefused(t *testing.T) {
	t.Parallel()
	g, mux, ok := guardtest.NewMemoryGuard(t), muxOf("/"), guardhttp.Lock("order:{id}")
	for want, routes := range map[string]guardhttp.Routes{
		`guardhttp: row "/a": no KeyFunc`: {"/a": {}},
		`guardhttp: row "/a": guard: TTL`: {"/a": guardhttp.Lock("a", guard.TTL(1))},
		`parsing "POST {id}/"`:            {"POST {id}/": guardhttp.Lock("a")},
		`guardhttp: row "POST /orders/{i}": placeholder {id}: the route has no such path value`: {"POST /orders/{i}": ok},
	} {
		assert.Contains(t, panicText(func() { guardhttp.Annotate(g, mux, routes) }), want)
	}
	guarded := guardhttp.Middleware(g, ok.Unlocked(nil).OnError(nil))
	assert.Equal(t, "guardhttp: no handler", panicText(func() { guarded(nil) }))
	assert.Equal(t, "guardhttp: no handler", panicText(func() { guarded(http.HandlerFunc(nil)) }))
	assert.Equal(t, "guardhttp: no mux", panicText(func() { guardhttp.Annotate(g, nil, nil) }))
	assert.NotPanics(t, func() {
		guardhttp.Annotate(nil, mux, guardhttp.Routes{
			"POST /files/{path...}":     guardhttp.Lock("file:{path}"),
			"POST /{größe}/{method}":    guardhttp.Lock("order:{größe}:{path:method}"),
			"POST /{order}/pay/{other}": guardhttp.LockFunc(func(*http.Request) (string, error) { return "x", nil }),
		})
	})
}

// Check finds a pattern if, and only if, the mux has it, whatever else that has.
func TestAnnotate_CheckFindsThePatternsOfAMux(t *testing.T) {
	t.Parallel()
	muxes := [][]string{ // of patterns that go together
		{"/", "/{$}", "/orders/", "/orders/{id}/pay", "/orders/new/pay", "/a%2Fb/{c}", "/deep/{a}/{rest...}", "/deep/{a}/{b}", "/ü", "/100%", "example.com/orders/"},
		{"/orders/{id}/pay", "GET /orders/{id}/pay", "BREW /orders/{id}/pay", "POST example.com/orders/{id}/pay", "POST other.example/orders/{id}/pay"},
	}
	for _, patterns := range muxes {
		for i, pattern := range patterns {
			row := guardhttp.Routes{pattern: {}}
			require.NoError(t, guardhttp.Check(muxOf(pattern), row), pattern)
			require.NoError(t, guardhttp.Check(muxOf(patterns...), row), pattern)
			require.EqualError(t, guardhttp.Check(muxOf(slices.Delete(slices.Clone(patterns), i, i+1)...), row),
				fmt.Sprintf("guardhttp: row %q: the mux has no such pattern", pattern))
		}
	}
	assert.EqualError(t, guardhttp.Check(nil, nil), "guardhttp: Check: no mux")
	assert.EqualError(t, guardhttp.Check(muxOf("/"), guardhttp.Routes{"/b": {}, "/": {}, "/a": {}}),
		"guardhttp: row \"/a\": the mux has no such pattern\nguardhttp: row \"/b\": the mux has no such pattern", "all of them, in order")
}

// FuzzAnnotate checks that a request reaches its handler, once and under its lock, or is answered, and that nothing
// panics.
func FuzzAnnotate(f *testing.F) {
	f.Add("POST", "example.com", "/orders/7/pay", "", "")
	f.Add("GET", "", "/orders/a/b/pay", "/orders/a%2Fb/pay", "")
	f.Add("CONNECT", "h:80", "", "", "*")
	f.Add("", "[::1", "*", "", "*")
	f.Add("OPTIONS", "shop.example.com.", "//..", "/%2f%zz/..", "//..")
	rows := guardhttp.Routes{
		"/":                        guardhttp.Lock("any"),
		"/orders/{id}/{what...}":   guardhttp.Lock("order:{id}:{what}"),
		"POST /orders/{id}/pay":    guardhttp.Lock("order:{id}"),
		"CONNECT h/x":              guardhttp.Lock("x"),
		"GET shop.example.com/{$}": guardhttp.Lock("shop"),
	}
	mux, served := http.NewServeMux(), 0
	for pattern := range rows {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			if _, held := guard.FromContext(r.Context()); held {
				served++
			}
		})
	}
	h := guardhttp.Annotate(guardtest.NewMemoryGuard(f), mux, rows)
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
