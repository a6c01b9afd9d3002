package guardhttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// Routers set path values as they stand in the URL, or decoded, and patterns of their own.
func TestPathValuesAreDecodedOnce(t *testing.T) {
	t.Parallel()
	key := guardhttp.Key("{id}")
	for _, row := range []struct{ url, pattern, value, want string }{
		{"/orders/7", "/orders/{id}", "7", "7"},
		{"/orders/%37", "/orders/{id}", "%37", "7"},
		{"/orders/%37", "/orders/{id}", "7", "7"},
		{"/orders/%37", "GET example.com/orders/{id}", "%37", "7"},
		{"/orders/%2541", "/orders/{id}", "%2541", "%41"},
		{"/orders/%2541", "/orders/{id}", "%41", "%41"},
		{"/orders/100%25", "/orders/{id}", "100%25", "100%"},
		{"/orders/100%25", "/orders/{id}", "100%", "100%"},
		{"/orders/%2541/%41", "/orders/{id}/{x}", "%41", "%41"},
		{"/orders/%2541/%41", "/orders/{x}/{id}", "%41", "A"},
		{"/a//%2F..%37", "/a//{id}", "%2F..%37", "/..7"},
		{"/orders/%37/pay", "/orders/{id}/*", "%37", "7"},
		{"/files/a/%37", "/files/{id...}", "a/%37", "a/7"},
		{"/orders/ü%2525", "/orders/{id}", "ü%2525", "ü%25"},

		{"/orders/%2525/pay", "POST /orders/:id/pay", "%25", "%25"},
		{"/orders/%2525/pay", "/orders/{id:.+}/pay", "%25", "%25"},
		{"/orders/%2525/pay", "/orders/{id:[^/]+}/pay", "%2525", "%25"},

		// What no ServeMux could read.
		{"/orders/%37", "", "%37", "7"},
		{"/orders/%37", "/:orders/%37", "%37", "7"},
		{"/orders/%37.json", "/orders/{id}.json", "%37", "7"},
		{"/orders/%37", "/orders/{id:[0-9]+}", "%37", "7"},
		{"/orders/%2541", "/orders/{id:.{3}}", "%41", "%41"},
		{"/orders/%2541", "/orders/{id:.{5}}", "%2541", "%41"},
		{"/orders/100%25", "/orders/{id:.{4}}", "100%", "100%"},
		{"/orders/ü%2525", "/orders/{id:.{1,9}}", "ü%2525", "ü%25"},
		{"/%2537/%37.json", "/{x}/{id}.json", "%37", "ambiguous"},
		{"/orders/%2525", "/orders/{id:.{3}}", "%25", "ambiguous"},
		{"/elsewhere", "/orders/{id}", "%37", "%37"}, // somebody else's value
	} {
		r := httptest.NewRequest(http.MethodGet, row.url, nil)
		r.Pattern = row.pattern
		r.SetPathValue("id", row.value)
		got, err := key(r)
		if row.want == "ambiguous" {
			assert.ErrorIs(t, err, guard.ErrKey, "%+v", row)
			assert.ErrorContains(t, err, "decoded or not", "%+v", row)
			continue
		}
		assert.NoError(t, err, "%+v", row)
		assert.Equal(t, guard.JoinKey(row.want), got, "%+v", row)
	}
}

func TestPathValueThatARouteHasMayBeEmpty(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"/orders/{id...}":     "missing or empty",
		"/orders/{id:.*}":     "missing or empty",
		"/orders/:id/pay":     "missing or empty",
		"/orders/:id":         "missing or empty",
		"/orders/:idx":        "the route has no such path value",
		"/orders/{idx}":       "the route has no such path value",
		"/orders/{id":         "the route has no such path value",
		"/orders/{identifier": "the route has no such path value",
		"":                    "the route has no such path value",
	} {
		r := httptest.NewRequest(http.MethodGet, "/orders/", nil)
		r.Pattern = pattern
		_, err := guardhttp.Key("{id}")(r)
		assert.ErrorContains(t, err, want, pattern)
	}
}
