package guardecho

import (
	"fmt"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// KeyFunc names what a request locks. It is called once a request, before anything is
// locked, and from many goroutines at a time; it must not keep c. Its error is answered
// with its own status if it has one (*echo.HTTPError, StatusCode() int), and else 500;
// see guard.JoinKey for how to put a key together.
type KeyFunc func(c echo.Context) (string, error)

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

func parse(template string) (*keytemplate.Template[echo.Context], error) {
	parsed, err := keytemplate.Parse(template, placeholders)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	return parsed, nil
}

func mustParse(template string) *keytemplate.Template[echo.Context] {
	parsed, err := parse(template)
	if err != nil {
		panic(err.Error())
	}
	return parsed
}

var placeholders = echocore.Placeholders(pathParam)

// pathParam decodes a parameter as http.ServeMux does. Echo routes by RawPath where
// there is one, and by the decoded Path else, and hands out what it routed by: decoding
// without looking would turn the "100%" of /orders/100%25 into an error.
func pathParam(c echo.Context, name string) (value string, ok bool, err error) {
	value = c.Param(name)
	if value == "" && !slices.Contains(c.ParamNames(), name) {
		return "", false, nil
	}
	if c.Request().URL.RawPath != "" {
		value, err = echocore.Decode(value)
	}
	return value, true, err
}
