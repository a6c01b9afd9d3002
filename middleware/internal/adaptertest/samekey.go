package adaptertest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
)

// ShowKey answers with the key of the innermost lock that the request is under.
func ShowKey(w http.ResponseWriter, r *http.Request) {
	lease, ok := guard.FromContext(r.Context())
	if !ok {
		http.Error(w, "no lock", http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte(lease.Key()))
}

// SameKey checks that servers of POST /orders/{id}/pay, each of which locks "order:{id}" and
// answers by ShowKey, lock the same key for the same URL. They may refuse URLs, and split
// paths in different ways.
func SameKey(f *testing.F, servers map[string]http.Handler) {
	for _, id := range []string{
		"7", "%37", "%61", "a%2Fb", "100%25", "%2541", "%2541%2F", "a%20b", "a+b", "a:b", "%3A", "{id}", "%FF", "..", ".",
		"%2e", "%2e%2e", "", "a;b", "%00", "//7", "x?y", "*", "%2525", "%252541", "%25%32%35", "%25", "%2F", "%C3%BC", "ü%2525",
	} {
		f.Add(id)
	}
	for name, server := range servers {
		assert.Equal(f, "order:7", serve(server, pay("7")).Body.String(), name)
	}
	f.Fuzz(func(t *testing.T, id string) {
		target, err := url.Parse("http://example.com/orders/" + id + "/pay")
		if err != nil {
			t.Skip()
		}
		keys := map[string]string{}
		for name, server := range servers {
			rec := serve(server, &http.Request{
				Method: http.MethodPost, URL: target, Host: target.Host, Header: http.Header{},
				Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			})
			// Servers split paths in different ways, and some redirect.
			if rec.Code == http.StatusOK {
				keys[name] = rec.Body.String()
			}
			// No router has a segment that is empty.
			if rec.Code == http.StatusInternalServerError && !strings.Contains(target.Path, "//") {
				t.Fatalf("%q: %s serves it without a lock", id, name)
			}
		}
		for name, key := range keys {
			for other, theirs := range keys {
				if key != theirs {
					t.Fatalf("%q: %s locks %q, %s %q", id, name, key, other, theirs)
				}
			}
		}
	})
}
