package httplock

import (
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// maxIdempotencyKey is in bytes, without the quotes.
const maxIdempotencyKey = 255

// idempotencyKey gives the value of the header Idempotency-Key: a string as RFC 8941 writes
// one, in quotes, or, as many clients send it, bare. Both spellings of a key are one key.
func idempotencyKey(r *http.Request) (string, error) {
	value, err := locking.Single(r.Header["Idempotency-Key"])
	if err != nil || value == "" {
		return "", err
	}
	if value[0] == '"' {
		quoted := inQuotes.FindStringSubmatch(value)
		if quoted == nil {
			return "", locking.Invalid("not a string in quotes")
		}
		value = unescape.Replace(quoted[1])
	}
	switch {
	case len(value) > maxIdempotencyKey:
		return "", locking.Invalid("longer than 255 bytes")
	case strings.ContainsFunc(value, unicode.IsControl):
		return "", locking.Invalid("has a control character")
	}
	return value, nil
}

// inQuotes is a string of RFC 8941, in which a backslash escapes a quote or a backslash.
var (
	inQuotes = regexp.MustCompile(`^"((?:[^"\\]|\\["\\])*)"$`)
	unescape = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
)
