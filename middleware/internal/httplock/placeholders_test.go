package httplock

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

func TestHTTPRequest_Placeholders(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/orders/7?q=1&two=a&two=b&empty=", nil)
	r.SetPathValue("id", "7")
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
		"{name}":           "the route has no such path value",
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
		"x:{header:host}": `column 4: net/http has no Host header: write LockFunc, with r.Host`,
		"{cookie:a=b}":    `column 2: "a=b" is not the name of a cookie`,
		"{form:x}":        `column 2: no placeholder is of the kind "form"`,
	} {
		_, err := locking.Parse(template, Grammar)
		assert.ErrorContains(t, err, want, template)
	}
}

func TestHTTPRequest_WordThatIsAlsoAPathValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"method", "idempotency-key"} {
		has, named := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRequest(http.MethodGet, "/", nil)
		has.SetPathValue(word, "path")
		named.Pattern = "/{" + word + "}" // which has no value in this request
		for _, r := range []*http.Request{has, named} {
			_, err := parse(t, "{"+word+"}").Key(r)
			assert.ErrorContains(t, err, "write {path:"+word+"}")
			require.NotNil(t, locking.ValueErrorIn(err))
			assert.True(t, locking.ValueErrorIn(err).Unfit)
		}
		key, err := parse(t, "{path:"+word+"}").Key(has)
		assert.NoError(t, err)
		assert.Equal(t, "path", key)
	}
}

// A pattern is written as for http.ServeMux, chi, echo or gin.
func TestPattern_NamesItsPathValues(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][]string{
		"POST /orders/{id}/pay":   {"id"},
		"/files/{path...}":        {"path"},
		"/orders/{id:[^/]+}/{no}": {"id", "no"},
		"/orders/{id}/*":          {"id", "*"},
		"/orders/:id/pay":         {"id"},
		"/files/*":                {"*"},
		"/files/*path":            {"path"},
		`/a\:b/u-:c`:              {"c"},
		"":                        nil,
	} {
		for _, name := range []string{"id", "path", "no", "*", "b", "c", "i", "d"} {
			assert.Equal(t, slices.Contains(names, name), patternHas(pattern, name), "%s: %s", pattern, name)
		}
	}
}

func TestHTTPRequest_NamesAreFew(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "POST /orders/:id", Name("POST", "/orders/:id"))
	assert.Equal(t, "_OTHER", Name("BREW-42", ""))
}

func parse(t *testing.T, template string) *locking.Template[*http.Request] {
	t.Helper()
	parsed, err := locking.Parse(template, Grammar)
	require.NoError(t, err)
	return parsed
}
