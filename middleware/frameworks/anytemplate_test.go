package frameworks_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	guardecho4 "github.com/redlatch/redlatch/middleware/echo"
	guardecho5 "github.com/redlatch/redlatch/middleware/echov5"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

// derived is what a template makes of a request, if the request came to its route.
type derived struct {
	routed bool
	key    string
	err    error
}

// derive parses a template and gives the function that applies it, on the route
// /orders/{id}/pay.
type derive func(template string) (func(*http.Request) derived, error)

var derivers = map[string]derive{
	"guardhttp": func(template string) (func(*http.Request) derived, error) {
		key, err := guardhttp.ParseKey(template)
		return func(r *http.Request) (d derived) {
			mux := http.NewServeMux()
			mux.HandleFunc("/orders/{id}/pay", func(_ http.ResponseWriter, r *http.Request) {
				d.routed = true
				d.key, d.err = key(r)
			})
			mux.ServeHTTP(httptest.NewRecorder(), r)
			return d
		}, err
	},
	"guardgin": func(template string) (func(*http.Request) derived, error) {
		key, err := guardgin.ParseKey(template)
		return func(r *http.Request) (d derived) {
			engine := gin.New()
			engine.UseRawPath = true
			if !upper.MatchString(r.Method) {
				return d // gin knows no such method
			}
			engine.Handle(r.Method, "/orders/:id/pay", func(c *gin.Context) {
				d.routed = true
				d.key, d.err = key(c)
			})
			engine.ServeHTTP(httptest.NewRecorder(), r)
			return d
		}, err
	},
	"guardecho": func(template string) (func(*http.Request) derived, error) {
		key, err := guardecho4.ParseKey(template)
		return func(r *http.Request) (d derived) {
			e := echo4.New()
			e.Logger.SetOutput(io.Discard)
			e.Any("/orders/:id/pay", func(c echo4.Context) error {
				d.routed = true
				d.key, d.err = key(c)
				return nil
			})
			e.ServeHTTP(httptest.NewRecorder(), r)
			return d
		}, err
	},
	"guardecho for v5": func(template string) (func(*http.Request) derived, error) {
		key, err := guardecho5.ParseKey(template)
		return func(r *http.Request) (d derived) {
			e := echo5.New()
			e.Any("/orders/:id/pay", func(c *echo5.Context) error {
				d.routed = true
				d.key, d.err = key(c)
				return nil
			})
			e.ServeHTTP(httptest.NewRecorder(), r)
			return d
		}, err
	},
}

func init() { gin.SetMode(gin.ReleaseMode) } // which prints nothing

var upper = regexp.MustCompile(`^[A-Z]+$`)

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// FuzzAnyTemplate checks of any template and any two requests that nothing panics, that
// the adapters agree, and that the requests share a key only if each placeholder has the
// same value in both.
func FuzzAnyTemplate(f *testing.F) {
	f.Add("order:{id}", "POST", "7", "q=1", "h", "x", "c=1", "POST", "%37", "q=2", "H:80", "y", "c=2")
	f.Add("{method}:{host}:{id}", "GET", "a%2Fb", "", "a:b", "", "", "GET", "a", "", "b:a", "", "")
	f.Add("{header:X}:{query:q}:{cookie:c}", "GET", "7", "q=a:b", "h", "c", "c=d", "GET", "7", "q=a", "h", "b:c", "c=d")
	f.Add("a{path:id}%3A:{query:q}", "PUT", "100%25", "q=%25", "[::1]", "\xff", `c="x y"`, "", "%2541", "q=1&q=2", "", "", "")
	f.Add("{*}:{id", "BREW", "..", "%zz;", " ", "\x00", "=", "*", "", "?", "", "", ";")
	f.Fuzz(func(t *testing.T, template, m1, id1, q1, host1, h1, c1, m2, id2, q2, host2, h2, c2 string) {
		first, second := anyRequest(m1, id1, q1, host1, h1, c1), anyRequest(m2, id2, q2, host2, h2, c2)
		if first == nil || second == nil {
			t.Skip()
		}
		var agreed *derived
		for name, derive := range derivers {
			apply, err := derive(template)
			if err != nil {
				continue // FuzzTemplate knows templates; here only panics count
			}
			a, b := apply(first()), apply(second())
			checkKey(t, name, template, a)
			checkKey(t, name, template, b)
			if a.routed && b.routed && a.err == nil && b.err == nil {
				if same := sameValues(t, derive, template, first, second); same != (a.key == b.key) {
					t.Fatalf("%s: %q gives %q and %q, same values: %v", name, template, a.key, b.key, same)
				}
			}
			if !a.routed {
				continue
			}
			if a.err != nil {
				continue // an adapter may refuse what its router leaves in doubt
			}
			if agreed != nil && agreed.key != a.key {
				t.Fatalf("%s: %q gives %q, another adapter %q", name, template, a.key, agreed.key)
			}
			agreed = &a
		}
	})
}

// anyRequest makes equal requests, since routers write to them.
func anyRequest(method, id, query, host, header, cookie string) func() *http.Request {
	target := "http://example.com/orders/" + id + "/pay?" + query
	if _, err := url.Parse(target); err != nil {
		return nil
	}
	return func() *http.Request {
		u, _ := url.Parse(target)
		return &http.Request{
			Method: method, URL: u, Host: host, Header: http.Header{"X": {header}, "Cookie": {cookie}},
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}
	}
}

func checkKey(t *testing.T, name, template string, d derived) {
	t.Helper()
	var bad *guard.KeyError
	switch {
	case d.err != nil && !errors.As(d.err, &bad):
		t.Fatalf("%s: %q: %v is no KeyError", name, template, d.err)
	case d.routed && d.err == nil && (d.key == "" || len(d.key) > guard.MaxKeyLength || !utf8.ValidString(d.key)):
		t.Fatalf("%s: %q gives %q", name, template, d.key)
	}
}

// sameValues says whether each placeholder alone gives the same key for both requests.
func sameValues(t *testing.T, derive derive, template string, first, second func() *http.Request) bool {
	t.Helper()
	for _, one := range placeholder.FindAllString(template, -1) {
		apply, err := derive(one)
		if err != nil {
			t.Fatalf("%q is malformed, but not in %q: %v", one, template, err)
		}
		if apply(first()).key != apply(second()).key {
			return false
		}
	}
	return true
}
