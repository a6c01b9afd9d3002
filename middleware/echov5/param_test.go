package guardecho_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

// A router that decodes parameters itself must not have them decoded again: "a/b%41" and
// "a/bA" are two orders, and "a/100%" is no bad escape.
func TestParam_ParametersAreDecodedOnce(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	for name, config := range map[string]echo.RouterConfig{
		"as they stand in the URL":       {},
		"decoded by the router":          {UnescapePathParamValues: true},
		"cut out of what is decoded":     {UseEscapedPathForMatching: true},
		"GET stands in for HEAD, always": {AutoHandleHEAD: true},
	} {
		e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(config)})
		e.POST(`/:shop/x\:y-:no/*`, func(c *echo.Context) error {
			lease, _ := guard.FromContext(c.Request().Context())
			return c.String(http.StatusOK, lease.Key())
		}, guardecho.Middleware(g, guardecho.Lock("{shop}:{no}:{*}")))
		for target, want := range map[string]string{
			"/%61/x:y-7/z":           "a:7:z",
			"/a/x:y-100%25/%7A":      "a:100%25:z",
			"/%2541/x:y-%3A/z%25%7A": "%2541:%3A:z%25z",
			"/%C3%BC/x:y-7/b/%7A":    "ü:7:b/z",
		} {
			rec := call(e, "POST", target)
			assert.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, target)
			assert.Equal(t, want, rec.Body.String(), "%s: %s", name, target)
		}
	}
}
