package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// showKey answers with the key that the request is under, or "none".
var showKey = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	key := "none"
	if lease, ok := guard.FromContext(r.Context()); ok {
		key = lease.Key()
	}
	_, _ = w.Write([]byte(key))
})

// ask gives the body, or the status if it is not 200, of "METHOD URL".
func ask(h http.Handler, request string) string {
	method, target, _ := strings.Cut(request, " ")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	if rec.Code != http.StatusOK {
		return http.StatusText(rec.Code)
	}
	return rec.Body.String()
}

func TestMostSpecificRowApplies(t *testing.T) {
	t.Parallel()
	h := guardhttp.Annotate(guardtest.NewGuard(t), showKey, guardhttp.Routes{
		"POST /orders/{id}/pay":      guardhttp.Lock("order:{id}"),
		"/orders/{id}/{what}":        guardhttp.Lock("order:{id}:{what}"),
		"POST /orders/new/pay":       guardhttp.Lock("new"),
		"GET /stock/{sku}":           guardhttp.Lock("stock:{sku}"),
		"POST /files/{path...}":      guardhttp.Lock("file:{path}"),
		"POST shop.example.com/till": guardhttp.Lock("till"),
		"/admin/":                    guardhttp.Lock("admin"),
		"POST /{$}":                  guardhttp.Lock("root"),
	})
	for request, want := range map[string]string{
		"POST /orders/7/pay":                   "order:7",
		"PUT /orders/7/pay":                    "order:7:pay",
		"POST /orders/7/ship":                  "order:7:ship",
		"POST /orders/new/pay":                 "new",
		"GET /stock/x":                         "stock:x",
		"HEAD /stock/x":                        "stock:x",
		"PUT /stock/x":                         "none",
		"POST /files/a/b":                      "file:a/b",
		"POST /files":                          "none",
		"POST http://shop.example.com/till":    "till",
		"POST http://shop.example.com:80/till": "till",
		"POST /till":                           "none",
		"POST /admin/x/y":                      "admin",
		"POST /admin":                          "none",
		"POST /":                               "root",
		"GET /":                                "none",
		"POST /nope":                           "none",
	} {
		assert.Equal(t, want, ask(h, request), request)
	}
}

func TestUnlistedRequestsAreLeftAlone(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var to http.ResponseWriter
	h := guardhttp.Annotate(guardtest.NewGuard(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got, to = r, w }),
		guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.Lock("order:{id}")})
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/orders/7/pay", nil),
		httptest.NewRequest(http.MethodPost, "/a/../b//c%2Fd", nil),
		httptest.NewRequest(http.MethodOptions, "*", nil),
		{Method: http.MethodConnect, Host: "example.com:80", URL: pay().URL.JoinPath("..")},
	} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		assert.Same(t, r, got)
		assert.Same(t, rec, to)
		assert.Empty(t, r.Pattern)
	}
}

func TestRowsOfAServeMux(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"POST /orders/{id}/pay", "POST /orders/new/pay", "GET /orders/{order}", "PUT /{a}/x", "POST /till/", "POST /shop/",
	} {
		mux.Handle(pattern, showKey)
	}
	h := guardhttp.Annotate(guardtest.NewGuard(t), mux, guardhttp.Routes{
		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
		"GET /orders/{id}":      guardhttp.Lock("order:{id}"),
		"PUT /y/{b}":            guardhttp.Lock("y:{b}"),
		"POST /till/":           guardhttp.Lock("till"),
		"POST /shop/{id}":       guardhttp.Lock("shop:{id}"),
		"POST /gone":            guardhttp.Lock("gone"),
	})
	for request, want := range map[string]string{
		"POST /orders/7/pay":     "order:7",
		"POST /orders/%37/pay":   "order:7",
		"POST /orders/a%2Fb/pay": "order:a/b",
		"POST /orders/new/pay":   "none",               // a route of its own
		"GET /orders/7":          "order:7",            // whatever the parameter is called
		"PUT /y/x":               "y:x",                // neither is more specific: what is listed is locked
		"POST /shop/7":           "shop:7",             // the mux passes it on to a router, maybe
		"POST /shop/7/x":         "none",               // unlisted
		"POST /gone":             "Not Found",          // no such route
		"DELETE /orders/7/pay":   "Method Not Allowed", // the same
		"POST /till":             "Temporary Redirect", // as without Annotate
		"POST //till/":           "Temporary Redirect",
		"POST /till/x":           "till",
	} {
		for range 2 { // what is known of patterns is kept
			assert.Equal(t, want, ask(h, request), request)
		}
	}
}

func TestPathsThatRoutersReadInDifferentWays(t *testing.T) {
	t.Parallel()
	h := guardhttp.Annotate(guardtest.NewGuard(t), showKey, guardhttp.Routes{
		"POST /orders/{id}":     guardhttp.Lock("order:{id}"),
		"POST /orders/{id}/pay": guardhttp.Lock("order:{id}"),
		"POST /files/{path...}": guardhttp.Lock("file:{path}"),
	})
	for request, want := range map[string]string{
		"POST /orders/%37/pay":     "order:7",
		"POST /orders/a%2Fb/pay":   "order:a/b",
		"POST /orders/100%25":      "order:100%25",
		"POST /orders%2F7/pay":     "order:7",     // to some routers
		"POST //orders/7//pay":     "order:7",     // to those that clean paths
		"POST /orders/./pay":       "Bad Request", // order ".", or order "pay"
		"POST /x/../orders/7":      "order:7",     // to those that clean paths
		"POST /orders/7%2Fpay":     "Bad Request", // order "7/pay", or order 7 to be paid
		"POST /files/a%2Fb/c":      "file:a/b/c",
		"POST /files/a/../b":       "Bad Request",
		"POST /files/.hidden":      "file:.hidden",
		"POST /files/ü%2Fx":        "file:ü/x", // ServeMux reads the escaped slash as a slash
		"POST /orders/ü%2Fx/pay":   "order:ü/x",
		"POST /elsewhere/a/../b":   "none",
		"POST /elsewhere/%2e%2e/b": "none",
	} {
		assert.Equal(t, want, ask(h, request), request)
	}
}

func TestOptionsOfRowsComeBehindThoseOfAll(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewGuard(t, guard.Observe(recorder))
	held, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.Name("holder"))
	require.NoError(t, err)
	defer func() { _ = held.Release(t.Context()) }()

	plain := guardhttp.Lock("order:{id}", guard.NoWait())
	h := guardhttp.Annotate(g, showKey, guardhttp.Routes{
		"POST /orders/{id}/pay":  plain,
		"POST /orders/{id}/ship": plain.With(guardhttp.BusyStatus(423), guardhttp.With(guard.Name("ship"))),
		"POST /orders/{id}/skip": plain.With(guardhttp.Skip(func(r *http.Request) bool { return r.PathValue("id") == "7" })),
		"POST /orders/{id}/own": plain.With(guardhttp.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
			assert.ErrorIs(t, err, guard.ErrBusy)
			assert.Equal(t, "POST /orders/{id}/own", r.Pattern)
			assert.Equal(t, "7", r.PathValue("id"))
			w.WriteHeader(http.StatusGone)
		})),
	}, guardhttp.BusyStatus(429))
	assert.Equal(t, "Too Many Requests", ask(h, "POST /orders/7/pay"), "With leaves the Rule as it is")
	assert.Equal(t, "Locked", ask(h, "POST /orders/7/ship"))
	assert.Equal(t, "none", ask(h, "POST /orders/7/skip"))
	assert.Equal(t, "Gone", ask(h, "POST /orders/7/own"))

	var names []string
	for _, o := range recorder.Observations("WaitStart") {
		names = append(names, o.Lock.Name)
	}
	assert.Equal(t, []string{"holder", "POST /orders/{id}/pay", "ship", "POST /orders/{id}/own"}, names)
}

func TestNextSeesItsOwnRouteAndOuterLayersToo(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/pay", func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "7", r.PathValue("order"))
		assert.Empty(t, r.PathValue("id"))
	})
	g := guardtest.NewGuard(t)
	rows := guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.Lock("order:{id}", guard.NoWait())}
	r := pay()
	guardhttp.Annotate(g, mux, rows).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "POST /orders/{order}/pay", r.Pattern)

	r = pay()
	guardhttp.Annotate(g, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Pattern)
		assert.Empty(t, r.PathValue("id"))
	}), rows).ServeHTTP(httptest.NewRecorder(), r)
	assert.Empty(t, r.Pattern)

	held, err := g.Acquire(t.Context(), guard.Key("order:7"))
	require.NoError(t, err)
	defer func() { _ = held.Release(t.Context()) }()
	guardhttp.Annotate(g, mux, rows).ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, "POST /orders/{id}/pay", r.Pattern, "a refused request has a route, too")
}

func TestMalformedRowsAreRefused(t *testing.T) {
	t.Parallel()
	g, ok := guardtest.NewGuard(t), guardhttp.Lock("order:{id}")
	for want, routes := range map[string]guardhttp.Routes{
		`guardhttp: row "/a": no KeyFunc`:     {"/a": {}},
		`guardhttp: row "/a": guard: TTL`:     {"/a": guardhttp.Lock("a", guard.TTL(1))},
		`guardhttp: row "/a": BusyStatus 200`: {"/a": ok.With(guardhttp.BusyStatus(200))},
		`parsing "POST"`:                      {"POST": ok},
		`row "/a/:id": a path value`:          {"/a/:id": ok},
		`pattern "/{b}/x" (registered at`:     {"/{a}/x": ok, "/{b}/x": ok},
	} {
		assert.Contains(t, panicText(func() { guardhttp.Annotate(g, showKey, routes) }), want)
	}
	assert.Contains(t, panicText(func() { guardhttp.Annotate(g, nil, nil) }), "guardhttp: no handler")
	assert.Contains(t, panicText(func() { guardhttp.Lock("order:{id") }), "column 7")
	assert.NotPanics(t, func() { guardhttp.Annotate(nil, showKey, nil, nil) })
}
