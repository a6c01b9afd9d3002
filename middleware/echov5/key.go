package guardecho

import (
	"fmt"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/middleware/internal/echocore"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// KeyFunc names what a request locks. It is called once a request, before anything is
// locked, and from many goroutines at a time; it must not keep c. Its error is answered
// with its own status if it has one (StatusCode() int, as *echo.HTTPError has), and else 500;
// see guard.JoinKey for how to put a key together.
type KeyFunc func(c *echo.Context) (string, error)

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

func parse(template string) (*keytemplate.Template[*echo.Context], error) {
	parsed, err := keytemplate.Parse(template, placeholders)
	if err != nil {
		return nil, fmt.Errorf("guardecho: %w", err)
	}
	return parsed, nil
}

func mustParse(template string) *keytemplate.Template[*echo.Context] {
	parsed, err := parse(template)
	if err != nil {
		panic(err.Error())
	}
	return parsed
}

var placeholders = echocore.Placeholders(pathParam)

// pathParam decodes a parameter as http.ServeMux does, unless echo has done so: decoding
// twice would make two orders of one, or an error of the "100%" of /orders/100%25.
func pathParam(c *echo.Context, name string) (value string, ok bool, err error) {
	value, ok = c.PathValues().Get(name)
	// Where only the method does not match, echo leaves names of another request there.
	if !ok || !routed(c) {
		return "", false, nil
	}
	if isRaw(c) {
		value, err = echocore.Decode(value)
	}
	return value, true, err
}

// isRaw says whether the parameters of c were cut out of RawPath and are as they stand
// there. Without one, or with RouterConfig.UseEscapedPathForMatching, they come from the
// decoded Path, and with RouterConfig.UnescapePathParamValues they are decoded as well.
func isRaw(c *echo.Context) bool {
	raw := c.Request().URL.RawPath
	if raw == "" {
		return false
	}
	params := c.PathValues()
	values := make([]any, len(params))
	for i, param := range params {
		values[i] = param.Value
	}
	return c.RouteInfo().Reverse(values...) == raw
}
