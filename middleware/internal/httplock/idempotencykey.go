package httplock

import (
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// maxIdempotencyKey is the longest key without quotes, in bytes.
const maxIdempotencyKey = 255

// idempotencyKey returns the value of the header Idempotency-Key. Clients send it in quotes, as a string of RFC 8941,
// or bare: both spellings are one key.
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
