package httplock

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// FuzzIdempotencyKey checks that a client's key is one lock, however the client spells it, and that
// what is no key of 1 to 255 bytes without control characters is none.
func FuzzIdempotencyKey(f *testing.F) {
	for _, value := range []string{
		"", "7f9c", `"7f9c"`, `a"b\c`, `\`, `"`, `""`, `"a" "b"`, "a\r\nb", "\x00", "\u0085", "\xff", "ключ", "a:b%3A", " a ",
		strings.Repeat("a", 255), strings.Repeat("a", 256), strings.Repeat(":", 255), strings.Repeat("é", 128),
	} {
		f.Add(value)
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, value string) {
		want, usable := guard.JoinKey(value), isIdempotencyKey(value)
		spellings := []string{`"` + escape.Replace(value) + `"`}
		if !strings.HasPrefix(value, `"`) {
			spellings = append(spellings, value)
		}
		for _, header := range spellings {
			key, err := keyOfHeader(t, header)
			switch {
			case usable && (err != nil || key != want):
				t.Fatalf("%q gives %q, %v", header, key, err)
			case !usable && !isRefused(err):
				t.Fatalf("%q gives %q, %v", header, key, err)
			}
		}
		// In no spelling does a header give a key that none of those gives.
		if key, err := keyOfHeader(t, value); err == nil && (key == "" || len(key) > guard.MaxKeyLength || strings.ContainsFunc(key, isControl)) ||
			err != nil && !isRefused(err) {
			t.Fatalf("%q gives %q, %v", value, key, err)
		}
	})
}

func keyOfHeader(t *testing.T, headers ...string) (string, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header["Idempotency-Key"] = headers
	return parse(t, "{idempotency-key}").Key(r)
}

func isIdempotencyKey(value string) bool {
	return value != "" && len(value) <= 255 && utf8.ValidString(value) && !strings.ContainsFunc(value, isControl) &&
		len(guard.JoinKey(value)) <= guard.MaxKeyLength
}

func isControl(r rune) bool { return r < 0x20 || 0x7f <= r && r < 0xa0 }

// isRefused says whether err blames what the client sent.
func isRefused(err error) bool {
	why := locking.ValueErrorIn(err)
	return errors.Is(err, guard.ErrKey) && why != nil && !why.Unfit
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
