package adaptertest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// keys checks that URLs give the key that they would behind http.ServeMux: one resource
// must not have several locks because its name can be spelled in several ways.
func keys(t *testing.T, build Build) {
	h := build(t, Setup{Guard: guardtest.NewGuard(t), Template: "order:{id}", Work: showKey})
	for id, want := range map[string]string{
		"7":                      "order:7",
		"%37":                    "order:7",
		"%61":                    "order:a",
		"a%2Fb":                  "order:a/b",
		"a%2fb":                  "order:a/b",
		"100%25":                 "order:100%25",
		"%2541":                  "order:%2541",
		"%2541%2F":               "order:%2541/",
		"a%20b":                  "order:a b",
		"a+b":                    "order:a+b",
		"a:b":                    "order:a%3Ab",
		"a%3Ab":                  "order:a%3Ab",
		"%C3%BC":                 "order:ü",
		"{id}":                   "order:{id}",
		"%7Bid%7D":               "order:{id}",
		strings.Repeat("x", 506): "order:" + strings.Repeat("x", 506),
	} {
		rec := serve(h, pay(id))
		assert.Equal(t, http.StatusOK, rec.Code, id)
		assert.Equal(t, want, rec.Body.String(), id)
	}
	for _, id := range []string{"%FF", "a%FF%2Fb", strings.Repeat("x", 507), strings.Repeat("%3A", 200)} {
		assert.Equal(t, http.StatusBadRequest, serve(h, pay(id)).Code, id)
	}
}

// Key gives the key that /orders/{id}/pay locks for an id as it stands in a URL, and
// false where the server does not come that far.
func Key(h http.Handler, id string) (key string, ok bool) {
	target, err := url.Parse("http://example.com/orders/" + id + "/pay")
	if err != nil {
		return "", false
	}
	r := &http.Request{Method: http.MethodPost, URL: target, Host: target.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	rec := serve(h, r)
	return rec.Body.String(), rec.Code == http.StatusOK
}

// KeyServer is a server for Key.
func KeyServer(tb testing.TB, build Build) http.Handler {
	tb.Helper()
	return build(tb, Setup{Guard: guardtest.NewGuard(tb), Template: "order:{id}", Work: showKey})
}

func showKey(w http.ResponseWriter, r *http.Request) {
	lease, _ := guard.FromContext(r.Context())
	_, _ = w.Write([]byte(lease.Key()))
}
