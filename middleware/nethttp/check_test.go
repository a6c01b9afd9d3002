package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// rowsNamed gives the rows that an error names.
func rowsNamed(err error) (rows []string) {
	if err == nil {
		return nil
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, row, _ := strings.Cut(line, `row "`)
		row, _, _ = strings.Cut(row, `"`)
		rows = append(rows, row)
	}
	return rows
}

func TestCheckNamesRowsWithoutARoute(t *testing.T) {
	t.Parallel()
	nested := http.NewServeMux()
	nested.Handle("GET /nested/{id}", showKey)
	mux := http.NewServeMux()
	for _, pattern := range []string{
		"POST /orders/{order}/pay", "POST /orders/new/pay", "GET /stock/{sku}", "BREW /pot", "DELETE example.com/hosts/{id}",
		"/till/", "POST /only/{$}", "GET /a%2Fb/{c}", "/deep/{a}/{rest...}", "GET /root/{x}", "/any/{what}",
	} {
		mux.Handle(pattern, showKey)
	}
	mux.Handle("/nested/", nested)
	for row, fits := range map[string]bool{
		"POST /orders/{id}/pay":         true,
		"/orders/{id}/pay":              true,
		"example.com/orders/{id}/pay":   true,
		"POST /orders/new/pay":          true,
		"GET /orders/{id}/pay":          false, // no such method
		"POST /orders/{id}/payy":        false,
		"POST /orders/{id}":             false,
		"POST /orders/":                 false, // what there is is more specific
		"GET /stock/{id}":               true,
		"HEAD /stock/{id}":              true, // served by the pattern for GET
		"POST /stock/{id}":              false,
		"BREW /pot":                     true,
		"/pot":                          true, // a method that only the mux knows
		"DELETE /hosts/{id}":            false,
		"DELETE example.com/hosts/{id}": true,
		"DELETE other.com/hosts/{id}":   false,
		"/till":                         false, // a redirect
		"/till/":                        true,
		"/till/{x}":                     true,
		"/till/{x...}":                  true,
		"/till/{$}":                     true,
		"/only/{$}":                     true,
		"/only/":                        false,
		"/a%2Fb/{c}":                    true,
		"/a/b/{c}":                      false,
		"/deep/{a}/{b...}":              true,
		"/deep/{a}/b/c":                 true,
		"/deep/{a}":                     false,
		"/root/":                        false,
		"/any/{x}":                      true,
		"QUERY /any/{x}":                true,
		"GET /nested/{x}":               true,
		"GET /nested/{x}/y":             false,
		"/nested/":                      false,
		"/x//y":                         false, // never matches
	} {
		err := guardhttp.Check(mux, guardhttp.Routes{row: {}})
		if fits {
			assert.NoError(t, err, row)
		} else {
			assert.EqualError(t, err, `guardhttp: row "`+row+`": the mux has no route for it`)
		}
	}

	err := guardhttp.Check(mux, guardhttp.Routes{"POST /b": {}, "POST /orders/{id}/pay": {}, "POST /a": {}})
	assert.Equal(t, []string{"POST /a", "POST /b"}, rowsNamed(err), "all of them, in order")
	assert.NoError(t, guardhttp.Check(mux, nil))
}

func TestCheckRefusesWhatAnnotateRefuses(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/", showKey)
	assert.EqualError(t, guardhttp.Check(nil, nil), "guardhttp: Check: no mux")
	for row, want := range map[string]string{
		"POST":        `row "POST": parsing "POST"`,
		"POST /a/:id": "a path value is written {id}",
		"/{a}/{a}":    "duplicate wildcard name",
	} {
		assert.ErrorContains(t, guardhttp.Check(mux, guardhttp.Routes{row: {}}), want)
	}
}

// What Check finds locks, and what it does not find does not.
func TestCheckKnowsWhatAnnotateLocks(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	key := func(*http.Request) (string, error) { return "key", nil }
	eachPattern(func(row string, _ int) {
		rows := guardhttp.Routes{row: {Key: key}}
		lock := rows.Middleware(g)
		eachPattern(func(route string, _ int) {
			mux := http.NewServeMux()
			mux.Handle(route, lockState)
			h := lock(mux)
			// It cannot find a route of a host by a row of none.
			if hasHost(route) && !hasHost(row) {
				return
			}
			assert.Equal(t, locksAny(h), guardhttp.Check(mux, rows) == nil, "row %q, route %q", row, route)
		})
	})
}

// locksAny says whether h locks any request that a pattern of eachPattern can match.
func locksAny(h http.Handler) bool {
	for _, method := range []string{"HEAD", "POST", "PUT"} {
		for _, host := range []string{"example.com", "other.example", "third.example"} {
			for _, path := range []string{"/x", "/orders/7", "/orders/7/pay", "/orders/new/pay"} {
				if held, _ := serves(h, method, host, path); held == "true" {
					return true
				}
			}
		}
	}
	return false
}

func hasHost(pattern string) bool { return strings.Contains(pattern, "example") }

func TestPlaceholderThatARowCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	for _, row := range []struct{ pattern, template, want string }{
		{"POST /orders/{id}/pay", "order:{id}", ""},
		{"POST /orders/{id}/pay", "order:{path:id}", ""},
		{"POST /orders/{id}/pay", "all", ""},
		{"POST /orders/{id}/pay", "{host}:{method}:{header:X}:{query:x}:{cookie:x}", ""},
		{"POST /files/{path...}", "file:{path}", ""},
		{"POST /orders/{größe}/pay", "order:{größe}", ""},
		{"POST /{host}/{method}", "{path:host}:{path:method}", ""},
		{"POST /orders/{id}/pay", "order:{order}", "placeholder {order}: the route has no such path value"},
		{"POST /orders/{id}/pay", "order:{path:order}", "placeholder {path:order}: the route has no such path value"},
		{"POST /orders/{id}/pay", "{id}:{i}", "placeholder {i}: the route has no such path value"},
		{"POST /orders/{$}", "order:{path:id}", "placeholder {path:id}: the route has no such path value"},
		{"POST /{host}/pay", "{host}", "placeholder {host}: the route has a path value of that name: write {path:host}"},
	} {
		routes := guardhttp.Routes{row.pattern: guardhttp.Lock(row.template).With(guardhttp.BusyStatus(423))}
		if row.want == "" {
			assert.NotPanics(t, func() { guardhttp.Annotate(g, showKey, routes) }, row.template)
			continue
		}
		want := `guardhttp: row "` + row.pattern + `": ` + row.want
		assert.PanicsWithValue(t, want, func() { guardhttp.Annotate(g, showKey, routes) })
		assert.PanicsWithValue(t, want, func() { routes.Middleware(g) })
	}
	// What a function wants to know nobody can say.
	own := guardhttp.Rule{Key: guardhttp.Key("order:{order}")}
	assert.NotPanics(t, func() { guardhttp.Annotate(g, showKey, guardhttp.Routes{"/orders/{id}": own}) })
}

func TestRoutesAsMiddleware(t *testing.T) {
	t.Parallel()
	routes := guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.Lock("order:{id}")}
	lock := routes.Middleware(guardtest.NewGuard(t), guardhttp.Skip(func(r *http.Request) bool { return r.PathValue("id") == "8" }))
	delete(routes, "POST /orders/{id}/pay")
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{order}/pay", showKey)
	mux.Handle("POST /orders/new/pay", showKey)
	for name, h := range map[string]http.Handler{"a handler": lock(showKey), "a mux": lock(mux)} {
		assert.Equal(t, "order:7", ask(h, "POST /orders/7/pay"), name)
		assert.Equal(t, "none", ask(h, "POST /orders/8/pay"), name)
	}
	assert.Equal(t, "none", ask(lock(mux), "POST /orders/new/pay"))
	assert.Panics(t, func() { lock(nil) })
	assert.Panics(t, func() { guardhttp.Routes{"/a": {}}.Middleware(nil) })
}

// Annotate as middleware goes where a router's middleware goes: inside of what knows who
// asks.
func TestRoutesInsideOfAuthentication(t *testing.T) {
	t.Parallel()
	lock := guardhttp.Routes{"POST /orders/{id}/pay": {Key: func(r *http.Request) (string, error) {
		lease, ok := guard.FromContext(r.Context())
		if !ok {
			return "", http.ErrNoCookie
		}
		return guard.JoinKey(lease.Key(), "order", r.PathValue("id")), nil
	}}}.Middleware(nil)
	g := guardtest.NewGuard(t)
	tenant := guardhttp.Middleware(g, guardhttp.Key("tenant:{header:X-Tenant}"))
	h := tenant(lock(showKey))
	rec := httptest.NewRecorder()
	r := pay()
	r.Header.Set("X-Tenant", "acme")
	h.ServeHTTP(rec, r)
	assert.Equal(t, "tenant%3Aacme:order:7", rec.Body.String())
}
