package httplock

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

type (
	extract = locking.Extract[*http.Request]
	grammar = locking.Grammar[*http.Request]
)

// words are the placeholders without a kind that are no path values.
var words = map[string]extract{"method": method, "idempotency-key": idempotencyKey}

// Grammar has the placeholders of the HTTP adapters. Their requests have the pattern and the path values of the route,
// as http.ServeMux sets them.
var Grammar = grammar{
	Words: map[string]extract{"method": word("method"), "idempotency-key": word("idempotency-key")},
	Kinds: map[string]locking.Bind[*http.Request]{"path": bindPath, "header": bindHeader, "query": bindQuery, "cookie": bindCookie},
	Bare:  bindPath,
}

func word(name string) extract {
	return func(r *http.Request) (string, error) {
		// A route with a path value {method} almost certainly means that value.
		if r.PathValue(name) != "" || patternHas(r.Pattern, name) {
			return "", unfitWord(name)
		}
		return words[name](r)
	}
}

func unfitWord(name string) error {
	return locking.Unfit(fmt.Sprintf("the route has a path value of that name: write {path:%s}", name))
}

var errNoPathValue = locking.Unfit("the route has no such path value")

func bindPath(name string) (extract, error) {
	if strings.HasSuffix(name, "...") || strings.ContainsAny(name, "$/ \t\r\n") {
		return nil, fmt.Errorf("%q is not the name of a path value", name)
	}
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" && !patternHas(r.Pattern, name) {
			return "", errNoPathValue
		}
		return decodePathValue(r.URL, value)
	}, nil
}

func bindHeader(name string) (extract, error) {
	if !isToken(name) {
		return nil, fmt.Errorf("%q is not the name of a header", name)
	}
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return nil, errors.New("net/http has no Host header: write LockFunc, with r.Host")
	}
	return func(r *http.Request) (string, error) { return locking.Single(r.Header[name]) }, nil
}

func bindQuery(name string) (extract, error) {
	return func(r *http.Request) (string, error) { return locking.Single(r.URL.Query()[name]) }, nil
}

func bindCookie(name string) (extract, error) {
	if !isToken(name) {
		return nil, fmt.Errorf("%q is not the name of a cookie", name)
	}
	// Browsers may send several cookies of a name, the most specific path first.
	return func(r *http.Request) (string, error) {
		cookie, err := r.Cookie(name)
		if err != nil {
			return "", nil //nolint:nilerr // there is no such cookie
		}
		return cookie.Value, nil
	}, nil
}

func method(r *http.Request) (string, error) { return r.Method, nil }

// inTokens are the characters of a name of a header (RFC 9110 §5.6.2) or a cookie (RFC 6265).
const inTokens = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// isToken reports whether name may be the name of a header or a cookie.
func isToken(name string) bool { return name != "" && strings.Trim(name, inTokens) == "" }

// fits returns an error if a placeholder has no value in any request of the route, or a template has the name of a path
// value as text. The pattern is as its router writes it.
func fits(rule locking.Rule[*http.Request], pattern string) error {
	for _, placeholder := range rule.Placeholders() {
		name, isPath := strings.CutPrefix(placeholder, "path:")
		_, isWord := words[placeholder]
		if !isPath && strings.Contains(placeholder, ":") {
			continue // a header, say
		}
		var err error
		switch has := patternHas(pattern, name); {
		case isWord && has:
			err = unfitWord(name)
		case !isWord && !has:
			err = errNoPathValue
		}
		if err != nil {
			return fmt.Errorf("placeholder {%s}: %w", placeholder, err)
		}
	}
	for _, name := range pathValues(pattern) {
		if rule.Spells(name) {
			return fmt.Errorf("the key has :%s as text, one for all requests: the path value is {%s}", name, name)
		}
	}
	return nil
}

// patternHas reports whether a pattern has a path value of that name.
func patternHas(pattern, name string) bool { return slices.Contains(pathValues(pattern), name) }

// pathValues returns the names of the path values in a pattern: {name}, {name...} or {name:regexp}, or, without braces,
// :name or *name. A wildcard without a name is "*".
func pathValues(pattern string) (names []string) {
	if !strings.Contains(pattern, "{") {
		return params(pattern)
	}
	for _, part := range strings.Split(pattern, "{")[1:] {
		end := strings.IndexAny(part, "}:.")
		names = append(names, part[:max(end, 0)])
	}
	if strings.HasSuffix(pattern, "/*") {
		names = append(names, "*")
	}
	return names
}

// params returns the names of the path values in a pattern without braces.
func params(path string) (names []string) {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '*':
			if name := path[i+1:]; name != "" {
				return append(names, name)
			}
			return append(names, "*")
		case '\\': // "\:" is a colon
			i++
		case ':':
			name, _, _ := strings.Cut(path[i+1:], "/")
			names = append(names, name)
			i += len(name)
		}
	}
	return names
}
