package echocore

import (
	"net/http"
	"net/url"

	"github.com/redlatch/redlatch/middleware/internal/httprequest"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// Placeholders is the grammar of guardecho's key templates. param gives the value of a
// path parameter, and whether the route of c has it.
func Placeholders[C Context](param func(c C, name string) (value string, ok bool, err error)) keytemplate.Grammar[C] {
	return httprequest.Placeholders(
		func(c C) *http.Request { return c.Request() },
		func(c C, name string) (string, error) {
			value, ok, err := param(c, name)
			if !ok {
				return "", keytemplate.Unfit("the route has no such path parameter")
			}
			return value, err
		},
	)
}

// Decode turns what a router cut out of URL.RawPath into what http.ServeMux gives.
func Decode(raw string) (string, error) {
	value, err := url.PathUnescape(raw)
	if err != nil {
		return "", keytemplate.Invalid("not a valid escape")
	}
	return value, nil
}
