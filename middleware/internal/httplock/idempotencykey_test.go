package httplock

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func keyOfHeader(t *testing.T, headers ...string) (string, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header["Idempotency-Key"] = headers
	return parse(t, "{idempotency-key}").Key(r)
}

func TestIdempotencyKey_IsOneKeyHoweverItIsSpelled(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 255)
	for header, want := range map[string]string{
		`8e03978e`:        "8e03978e",
		`"8e03978e"`:      "8e03978e", // one key, however it is spelled
		`"a \"b\" \\c"`:   "a \"b\" \\c",
		`a "b"`:           `a "b"`,
		`a:b`:             "a%3Ab",
		long:              long,
		`"` + long + `"`:  long,
		``:                "error",
		`""`:              "error",
		`"a`:              "error: not a string in quotes",
		`"a"b`:            "error: not a string in quotes",
		`"a";x=1`:         "error: not a string in quotes",
		`"a\b"`:           "error: not a string in quotes",
		`"a\`:             "error: not a string in quotes",
		"a\tb":            "error: has a control character",
		"\"a\x7f\"":       "error: has a control character",
		"a\u0085b":        "error: has a control character",
		"a\xff":           "error",
		long + "x":        "error: longer than 255 bytes",
		`"` + long + `x"`: "error: longer than 255 bytes",
	} {
		key, err := keyOfHeader(t, header)
		if why, is := strings.CutPrefix(want, "error"); is {
			assert.ErrorContains(t, err, strings.TrimPrefix(why, ": "), header)
			continue
		}
		assert.NoError(t, err, header)
		assert.Equal(t, want, key, header)
	}
	_, err := keyOfHeader(t, "a", "a")
	assert.ErrorContains(t, err, "given more than once")
}
