package httplock

import (
	"net/url"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

var errEither = locking.Invalid("decoded or not, the URL may mean it")

// decodePathValue decodes a value that a router found in the path of u once, as http.ServeMux does. Some routers return
// the text of the URL, so that 7 and %37 would be two orders, and some decode it. If the URL does not tell which, it
// returns an error.
func decodePathValue(u *url.URL, value string) (string, error) {
	plain := strings.Contains(u.Path, value)
	if !strings.Contains(value, "%") {
		// Decoding changes nothing, unless the router decodes a plus to a blank, as gin may.
		if strings.Contains(value, " ") && !plain {
			return "", errEither
		}
		return value, nil
	}
	decoded, err := url.PathUnescape(value)
	if err != nil {
		return value, nil //nolint:nilerr // its '%' begins no escape, so the router decoded it
	}
	switch raw := standsIn(u.RawPath, value) || standsIn(u.EscapedPath(), value); {
	case plain && !raw:
		return value, nil
	case raw && !plain:
		return decoded, nil
	}
	return "", errEither
}

// standsIn reports whether value is a part of an escaped path, and does not begin inside an escape.
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
