package httprequest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// words are the placeholders that have no kind, and are no path values.
var words = map[string]func(*http.Request) (string, error){
	"host": host, "method": method, "idempotency-key": idempotencyKey,
}

// PathValue gives the decoded value of a path placeholder, or keytemplate.Unfit where
// the route of src has no such placeholder.
type PathValue[S any] func(src S, name string) (string, error)

// Placeholders is the grammar of the HTTP adapters, for requests that come as an S.
func Placeholders[S any](request func(S) *http.Request, path PathValue[S]) keytemplate.Grammar[S] {
	of := func(bind keytemplate.Bind[*http.Request]) keytemplate.Bind[S] {
		return func(name string) (keytemplate.Extract[S], error) {
			extract, err := bind(name)
			if err != nil {
				return nil, err
			}
			return func(src S) (string, error) { return extract(request(src)) }, nil
		}
	}
	word := func(name string, value func(*http.Request) (string, error)) keytemplate.Extract[S] {
		return func(src S) (string, error) {
			// A route with a {host} of its own almost certainly meant that one.
			_, err := path(src, name)
			if why := keytemplate.ValueErrorIn(err); why == nil || !why.Unfit {
				return "", unfitWord(name)
			}
			return value(request(src))
		}
	}
	fromPath := bindPath(path)
	extracts := map[string]keytemplate.Extract[S]{}
	for name, value := range words {
		extracts[name] = word(name, value)
	}
	return keytemplate.Grammar[S]{
		Words: extracts,
		Kinds: map[string]keytemplate.Bind[S]{
			"path":   fromPath,
			"header": of(bindHeader),
			"query":  of(bindQuery),
			"cookie": of(bindCookie),
		},
		Bare: fromPath,
	}
}

func unfitWord(name string) error {
	return keytemplate.Unfit(fmt.Sprintf("the route has a path value of that name: write {path:%s}", name))
}

func bindPath[S any](path PathValue[S]) keytemplate.Bind[S] {
	return func(name string) (keytemplate.Extract[S], error) {
		if strings.HasSuffix(name, "...") || strings.ContainsAny(name, "$/ \t\r\n") {
			return nil, fmt.Errorf("%q is not the name of a path value", name)
		}
		return func(src S) (string, error) { return path(src, name) }, nil
	}
}

func bindHeader(name string) (keytemplate.Extract[*http.Request], error) {
	if !isToken(name) {
		return nil, fmt.Errorf("%q is not the name of a header", name)
	}
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return nil, fmt.Errorf("the Host header is {host}")
	}
	return func(r *http.Request) (string, error) { return single(r.Header[name]) }, nil
}

func bindQuery(name string) (keytemplate.Extract[*http.Request], error) {
	return func(r *http.Request) (string, error) { return single(r.URL.Query()[name]) }, nil
}

func bindCookie(name string) (keytemplate.Extract[*http.Request], error) {
	if !isToken(name) {
		return nil, fmt.Errorf("%q is not the name of a cookie", name)
	}
	// Browsers rightly send one name several times, the most specific path first.
	return func(r *http.Request) (string, error) {
		cookie, err := r.Cookie(name)
		if err != nil {
			return "", nil //nolint:nilerr // the only error is that there is none
		}
		return cookie.Value, nil
	}, nil
}

// single refuses a value given twice: the handler could read another one than the lock.
func single(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", keytemplate.Invalid("given more than once")
}

func method(r *http.Request) (string, error) {
	if r.Method == "" {
		return http.MethodGet, nil
	}
	return r.Method, nil
}

// isToken is the rule of RFC 9110 §5.6.2 for names of headers, and of RFC 6265 for
// those of cookies.
func isToken(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}
