package httplock

import (
	"net/url"
	"strings"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

var errEither = locking.Invalid("decoded or not, the URL may mean it")

// decodePathValue gives the value that a router found in the path of u as http.ServeMux does:
// decoded once. Some routers hand out what stands in the URL, so that 7 and %37 would be two
// orders, and some decode. Where the URL does not say which, nobody may guess.
func decodePathValue(u *url.URL, value string) (string, error) {
	plain := strings.Contains(u.Path, value)
	if !strings.Contains(value, "%") {
		// The same, decoded or not, unless a router takes a plus for a blank, as gin may.
		if strings.Contains(value, " ") && !plain {
			return "", errEither
		}
		return value, nil
	}
	decoded, err := url.PathUnescape(value)
	if err != nil {
		return value, nil //nolint:nilerr // it has a '%' of its own, so it was decoded
	}
	switch raw := standsIn(u.RawPath, value) || standsIn(u.EscapedPath(), value); {
	case plain && !raw:
		return value, nil
	case raw && !plain:
		return decoded, nil
	}
	return "", errEither
}

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
