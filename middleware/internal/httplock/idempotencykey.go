package httplock

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// maxIdempotencyKey is in bytes, without the quotes.
const maxIdempotencyKey = 255

// idempotencyKey gives the value of the header Idempotency-Key: a string as RFC 8941 writes
// one, in quotes, or, as many clients send it, bare. Both spellings of a key are one key.
func idempotencyKey(r *http.Request) (string, error) {
	value, err := single(r.Header["Idempotency-Key"])
	if err != nil || value == "" {
		return "", err
	}
	if value[0] == '"' {
		if value, err = unquote(value); err != nil {
			return "", err
		}
	}
	switch {
	case len(value) > maxIdempotencyKey:
		return "", locking.Invalid("longer than 255 bytes")
	case strings.ContainsFunc(value, unicode.IsControl):
		return "", locking.Invalid("has a control character")
	}
	return value, nil
}

// unquote takes the quotes off a string of RFC 8941, and the backslashes off what it escapes.
func unquote(quoted string) (string, error) {
	inner := quoted[1:]
	var value strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			if i == len(inner)-1 {
				return value.String(), nil
			}
			return "", errQuotes
		case '\\':
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", errQuotes
			}
		}
		value.WriteByte(inner[i])
	}
	return "", errQuotes
}

var errQuotes = locking.Invalid("not a string in quotes")
