package guardhttp

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// pathValue gives a path value decoded as http.ServeMux does, once, also behind routers
// that hand out what stands in the URL, as chi does: 7 and %37 are one order.
func pathValue(r *http.Request, name string) (string, error) {
	value := r.PathValue(name)
	switch {
	case value == "" && !hasPathValue(r.Pattern, name):
		return "", keytemplate.Unfit("the route has no such path value")
	case !strings.Contains(value, "%"): // the same, decoded or not
		return value, nil
	}
	decoded, err := url.PathUnescape(value)
	if err != nil {
		return value, nil //nolint:nilerr // it has a '%' of its own, so it was decoded
	}
	switch read := reread(r, name); read {
	case value, decoded:
		return read, nil
	}
	// The pattern does not say where the value stands in the URL.
	raw := standsIn(r.URL.RawPath, value) || standsIn(r.URL.EscapedPath(), value)
	plain := strings.Contains(r.URL.Path, value)
	switch {
	case raw && plain:
		return "", keytemplate.Invalid("decoded or not, it could stand in the URL")
	case raw:
		return decoded, nil
	}
	return value, nil
}

// hasPathValue says whether a pattern has {name}, {name...} or, as that of another router
// may, {name:regexp} or :name.
func hasPathValue(pattern, name string) bool {
	_, behind, ok := strings.Cut(pattern, "{"+name)
	return ok && behind != "" && strings.ContainsAny(behind[:1], "}.:") || strings.Contains(pattern+"/", "/:"+name+"/")
}

// reread gives what an http.ServeMux with r's pattern reads in r's URL, or "" if it reads
// nothing there.
func reread(r *http.Request, name string) (value string) {
	defer func() {
		if recover() != nil { // no pattern of ServeMux
			value = ""
		}
	}()
	path := pathOf(r.Pattern)
	// How other routers write what ServeMux has as {name}, and "/" for all that is below.
	path = regexpValue.ReplaceAllString(path, "{$1}")
	path = colonValue.ReplaceAllString(path, "/{$1}")
	if strings.HasSuffix(path, "/*") {
		path = strings.TrimSuffix(path, "*")
	}
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(_ http.ResponseWriter, r *http.Request) { value = r.PathValue(name) })
	// Of CONNECT, ServeMux leaves the path as it is. The router has accepted it.
	there := &http.Request{Method: http.MethodConnect, URL: r.URL}
	mux.ServeHTTP(discard{}, there)
	return value
}

var (
	regexpValue = regexp.MustCompile(`\{(\w+):[^{}]*\}`)
	colonValue  = regexp.MustCompile(`/:(\w+)`)
)

// discard takes the redirects and errors of a mux that are for no client, but for their
// header.
type discard http.Header

func (d discard) Header() http.Header       { return http.Header(d) }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// standsIn says whether value is a part of an escaped path that begins with no half of an
// escape.
func standsIn(path, value string) bool {
	for at := 0; ; at++ {
		found := strings.Index(path[at:], value)
		if found < 0 {
			return false
		}
		at += found
		if !strings.Contains(path[max(0, at-2):at], "%") {
			return true
		}
	}
}
