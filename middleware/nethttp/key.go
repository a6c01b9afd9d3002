package guardhttp

import (
	"fmt"
	"net/http"

	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// KeyFunc names what a request locks. It is called once a request, before anything is
// locked, and from many goroutines at a time. Its error is answered with its own
// StatusCode() int if it has one, with what its Detail() string tells the client, and else
// 500; see guard.JoinKey for how to put a key together.
type KeyFunc func(r *http.Request) (string, error)

// Key is the KeyFunc of a template, as the package comment describes it. It panics if
// the template is malformed; use ParseKey for templates that are not constants.
func Key(template string) KeyFunc { return mustParse(template).Key }

// ParseKey is Key, but for the error: it names the column (in bytes, from 1) at which
// the template is malformed. The errors of the KeyFunc are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) {
	parsed, err := parse(template)
	if err != nil {
		return nil, err
	}
	return parsed.Key, nil
}

func parse(template string) (*keytemplate.Template[*http.Request], error) {
	parsed, err := keytemplate.Parse(template, placeholders)
	if err != nil {
		return nil, fmt.Errorf("guardhttp: %w", err)
	}
	return parsed, nil
}

func mustParse(template string) *keytemplate.Template[*http.Request] {
	parsed, err := parse(template)
	if err != nil {
		panic(err.Error())
	}
	return parsed
}

var placeholders = httprequest.Placeholders(
	func(r *http.Request) *http.Request { return r },
	pathValue,
)
