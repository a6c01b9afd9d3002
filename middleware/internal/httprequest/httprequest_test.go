package httprequest_test

import (
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// path knows one path value, {id}.
func path(r *http.Request, name string) (string, error) {
	if name != "id" {
		return "", keytemplate.Unfit("no such path value")
	}
	return r.PathValue(name), nil
}

var placeholders = httprequest.Placeholders(func(r *http.Request) *http.Request { return r }, path)

func TestHTTPRequest_Placeholders(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/orders/7?q=1&two=a&two=b&empty=", nil)
	r.SetPathValue("id", "7")
	r.Host = "Example.COM:8080"
	r.Header = http.Header{
		"X-Tenant": {"acme"},
		"X-Twice":  {"a", "b"},
		"Cookie":   {`sid=first; quoted="x y"; sid=second`},
	}
	for template, want := range map[string]string{
		"{id}":              "7",
		"{path:id}":         "7",
		"{header:x-tenant}": "acme",
		"{query:q}":         "1",
		"{cookie:sid}":      "first",
		"{cookie:quoted}":   "x y",
		"{host}":            "example.com",
		"{method}":          "POST",
	} {
		key, err := parse(t, template).Key(r)
		assert.NoError(t, err, template)
		assert.Equal(t, want, key, template)
	}
	for template, want := range map[string]string{
		"{header:X-Other}": "missing or empty",
		"{header:X-Twice}": "given more than once",
		"{query:other}":    "missing or empty",
		"{query:empty}":    "missing or empty",
		"{query:two}":      "given more than once",
		"{cookie:other}":   "missing or empty",
		"{name}":           "no such path value",
	} {
		_, err := parse(t, template).Key(r)
		assert.ErrorContains(t, err, want, template)
	}
}

func TestHTTPRequest_MalformedNames(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{id...}":         `column 2: "id..." is not the name of a path value`,
		"{$}":             `column 2: "$" is not the name of a path value`,
		"{ id }":          `column 2: " id " is not the name of a path value`,
		"{header:X Y}":    `column 2: "X Y" is not the name of a header`,
		"x:{header:host}": `column 4: the Host header is {host}`,
		"{cookie:a=b}":    `column 2: "a=b" is not the name of a cookie`,
		"{form:x}":        `column 2: no placeholder is of the kind "form"`,
	} {
		_, err := keytemplate.Parse(template, placeholders)
		assert.ErrorContains(t, err, want, template)
	}
}

func TestHTTPRequest_WordThatIsAlsoAPathValueIsRefused(t *testing.T) {
	t.Parallel()
	grammar := httprequest.Placeholders(
		func(r *http.Request) *http.Request { return r },
		func(*http.Request, string) (string, error) { return "path", nil },
	)
	broken := httprequest.Placeholders(
		func(r *http.Request) *http.Request { return r },
		func(*http.Request, string) (string, error) { return "", keytemplate.Invalid("broken") },
	)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, word := range []string{"host", "method", "idempotency-key"} {
		unusable, err := keytemplate.Parse("{"+word+"}", broken)
		require.NoError(t, err)
		_, err = unusable.Key(r)
		assert.ErrorContains(t, err, "write {path:"+word+"}", "the route has it, though this request has no value")

		ambiguous, err := keytemplate.Parse("{"+word+"}", grammar)
		require.NoError(t, err)
		_, err = ambiguous.Key(r)
		require.NotNil(t, keytemplate.ValueErrorIn(err))
		assert.True(t, keytemplate.ValueErrorIn(err).Unfit)
		clear, err := keytemplate.Parse("{path:"+word+"}", grammar)
		require.NoError(t, err)
		key, err := clear.Key(r)
		assert.NoError(t, err)
		assert.Equal(t, "path", key)
	}
}

func TestHTTPRequest_HostHasOneSpelling(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"example.com":           "example.com",
		"EXAMPLE.com.":          "example.com",
		"example.com..":         "example.com",
		"example.com:":          "example.com",
		"example.com:80":        "example.com",
		"example.com.:443":      "example.com",
		"my_service":            "my_service",
		"ZOO.az":                "zoo.az",
		"XN--Bcher-KVA.example": "xn--bcher-kva.example",
		"7c9e6679f2b1:8080":     "7c9e6679f2b1", // a container
		"0xfire.4ever":          "0xfire.4ever",
		"1.example":             "1.example",
		"127.0.0.1":             "127.0.0.1",
		"127.0.0.1.:8080":       "127.0.0.1",
		"[::1]":                 "%3A%3A1",
		"[::1]:80":              "%3A%3A1",
		"[::1]:":                "%3A%3A1",
		"[0:0:0:0:0:0:0:1]":     "%3A%3A1",
		"[2001:DB8::A]":         "2001%3Adb8%3A%3Aa",
		"[::ffff:127.0.0.1]:1":  "127.0.0.1",
		"[::FFFF:7f00:1]":       "127.0.0.1",
	} {
		key, err := parse(t, "{host}").Key(requestTo(host))
		assert.NoError(t, err, host)
		assert.Equal(t, want, key, host)
	}
	for _, host := range []string{
		"::1", "[::1", "[::1]80", "[::1].", "[::1%eth0]", "[::1%25eth0]", "[example.com]", "[127.0.0.1", "[]", // addresses
		"127.1", "127.0.0.01", "0x7f.0.0.1", "127.0.0.0x1", "0x7F000001", "1.0x", "2130706433", "1.2.3.4.5", "x.1", // those of other systems
		"b\u00fccher.example", "\u212a.example", "ex%61mple.com", "a[b", "a b", "a/b", "a@b", "a:b", "a:80:80", "x\x00", "", ".", ":80",
	} {
		_, err := parse(t, "{host}").Key(requestTo(host))
		value := keytemplate.ValueErrorIn(err)
		if assert.NotNil(t, value, host) {
			assert.False(t, value.Unfit, host)
			want := "not a host"
			if slices.Contains([]string{"", ".", ":80", "[]"}, host) {
				want = "missing or empty"
			}
			assert.ErrorContains(t, err, want, host)
		}
	}
}

// RFC 9110 §5.6.2: what a name of a header or a cookie is made of.
func TestHTTPRequest_NamesAreTokens(t *testing.T) {
	t.Parallel()
	const others = "!#$%&'*+-.^_`|~"
	for c := range rune(128) {
		if c == '{' || c == '}' {
			continue // those of the template
		}
		isToken := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune(others, c)
		for _, kind := range []string{"header", "cookie"} {
			_, err := keytemplate.Parse("{"+kind+":"+string(c)+"}", placeholders)
			assert.Equal(t, isToken, err == nil, "%s %q: %v", kind, c, err)
		}
	}
}

func TestHTTPRequest_ARequestWithoutAMethodIsAGet(t *testing.T) {
	t.Parallel()
	key, err := parse(t, "{method}").Key(&http.Request{})
	require.NoError(t, err)
	assert.Equal(t, "GET", key)
}

func TestTemplate_Placeholders(t *testing.T) {
	t.Parallel()
	assert.Empty(t, parse(t, "\ufffd").Placeholders(), "which is a character, too")
	assert.Equal(t, []string{"id", "header:X-Tenant"}, parse(t, "order:{id}:{header:X-Tenant}:x").Placeholders())
	name, isPath := httprequest.PathValueOf("header:X-Tenant")
	assert.Equal(t, "X-Tenant", name)
	assert.False(t, isPath)
	name, isPath = httprequest.PathValueOf("path:id")
	assert.Equal(t, "id", name)
	assert.True(t, isPath)
}

func requestTo(host string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = host
	return r
}

// FuzzHost checks that a spelling is kept by all that may be added to it, and that the
// spelling of a spelling is itself.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"example.com", "Example.COM.", "127.0.0.1", "[::1]", "[2001:DB8::A]", "x..y", "-", "[::ffff:1.2.3.4]", "0.x"} {
		f.Add(host)
	}
	grammar, err := keytemplate.Parse("{host}", placeholders)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) >= 0 {
			t.Skip("has no other case")
		}
		if strings.Contains(strings.TrimLeft(host, "["), ":") && !strings.HasSuffix(host, "]") {
			t.Skip("has a port already")
		}
		want, err := grammar.Key(requestTo(host))
		for _, same := range []string{host + ":80", host + ":", strings.ToUpper(host)} {
			if got, gotErr := grammar.Key(requestTo(same)); got != want || (gotErr == nil) != (err == nil) {
				t.Fatalf("%q gives %q, %v, and %q %q, %v", host, want, err, same, got, gotErr)
			}
		}
		if err != nil {
			return
		}
		spelled := strings.NewReplacer("%3A", ":").Replace(want)
		if strings.Contains(spelled, ":") {
			spelled = "[" + spelled + "]"
		}
		if again, err := grammar.Key(requestTo(spelled)); again != want || err != nil {
			t.Fatalf("%q gives %q, and that %q, %v", host, want, again, err)
		}
	})
}

func TestHTTPRequest_NamesAreFew(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "POST /orders/:id", httprequest.Name("POST", "/orders/:id"))
	assert.Equal(t, "GET", httprequest.Name("", ""))
	assert.Equal(t, "_OTHER", httprequest.Name("BREW-42", ""))
}

func TestHTTPRequest_HandBack(t *testing.T) {
	t.Parallel()
	form := &multipart.Form{}
	outer, inner := &http.Request{}, &http.Request{Pattern: "GET /", MultipartForm: form}
	httprequest.HandBack(outer, inner)
	assert.Equal(t, "GET /", outer.Pattern)
	assert.Same(t, form, outer.MultipartForm)

	httprequest.HandBack(outer, &http.Request{})
	assert.Same(t, form, outer.MultipartForm)
}

func parse(t *testing.T, template string) *keytemplate.Template[*http.Request] {
	t.Helper()
	parsed, err := keytemplate.Parse(template, placeholders)
	require.NoError(t, err)
	return parsed
}
