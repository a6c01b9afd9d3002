package adaptertest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho4 "github.com/redlatch/redlatch/middleware/echo"
	guardecho5 "github.com/redlatch/redlatch/middleware/echov5"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

const template = "order:{id}"

// keyServers tell the key that POST /orders/{id}/pay locks, each by its own adapter.
func keyServers(g *guard.Guard) map[string]http.Handler {
	work := http.HandlerFunc(showKey)
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", guardhttp.Middleware(g, guardhttp.Key(template))(work))

	work4 := func(c echo4.Context) error { showKey(c.Response(), c.Request()); return nil }
	guarded4, bare4 := echo4.New(), echo4.New()
	guarded4.POST("/orders/:id/pay", work4, guardecho4.Middleware(g, guardecho4.Key(template)))
	bare4.POST("/orders/:id/pay", work4)

	work5 := func(c *echo5.Context) error { showKey(c.Response(), c.Request()); return nil }
	guarded5, bare5 := echo5.New(), echo5.New()
	guarded5.POST("/orders/:id/pay", work5, guardecho5.Middleware(g, guardecho5.Key(template)))
	bare5.POST("/orders/:id/pay", work5)

	row := guardhttp.Routes{"POST /orders/{id}/pay": guardhttp.Lock(template)}
	return map[string]http.Handler{
		"guardhttp":                    mux,
		"guardhttp in front of chi":    guardhttp.Annotate(g, chi(work), row),
		"guardhttp in front of gin":    guardhttp.Annotate(g, gin(work), row),
		"guardhttp in front of echo":   guardhttp.Annotate(g, bare4, row),
		"guardhttp in front of echov5": guardhttp.Annotate(g, bare5, row),
		"guardecho":                    guarded4,
		"guardecho for v5":             guarded5,
	}
}

// chi stands for a router that compares the segments of a URL as they are, gin for one
// that decodes the URL first.
func chi(work http.Handler) http.Handler { return router((*url.URL).EscapedPath, work) }

func gin(work http.Handler) http.Handler {
	return router(func(u *url.URL) string { return u.Path }, work)
}

func router(pathOf func(*url.URL) string, work http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segments := strings.Split(pathOf(r.URL), "/")
		if len(segments) != 4 || segments[1] != "orders" || segments[2] == "" || segments[3] != "pay" {
			http.NotFound(w, r)
			return
		}
		work.ServeHTTP(w, r)
	})
}

// FuzzSameKey checks that a URL which several adapters lock gets one key from all.
func FuzzSameKey(f *testing.F) {
	for _, id := range []string{"7", "%37", "%61", "a%2Fb", "100%25", "%2541", "%2541%2F", "a%20b", "a+b", "a:b", "%3A", "{id}", "%FF", "..", ".", "%2e", "", "a;b", "%00", "//7", "x?y", "*"} {
		f.Add(id)
	}
	servers := keyServers(guardtest.NewGuard(f))
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
			// Servers split paths in different ways, and ServeMux redirects.
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

func TestSameKeyIsNotForWantOfKeys(t *testing.T) {
	t.Parallel()
	for name, server := range keyServers(guardtest.NewGuard(t)) {
		for id, want := range map[string]string{"%61": "order:a", "a%2Fb": "order:a/b", "100%25": "order:100%25"} {
			rec := serve(server, pay(id))
			if strings.Contains(name, "gin") && rec.Code == http.StatusNotFound {
				continue // it takes the slash for one
			}
			assert.Equal(t, want, rec.Body.String(), name)
		}
	}
}
