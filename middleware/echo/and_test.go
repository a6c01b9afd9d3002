package guardecho_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func TestAnd(t *testing.T) {
	t.Parallel()
	route := func(e *echo.Echo, work http.HandlerFunc, middleware ...echo.MiddlewareFunc) {
		e.POST("/accounts/:from/pay/:to", func(c echo.Context) error {
			work(c.Response(), c.Request())
			return nil
		}, middleware...)
	}
	t.Run("of a Rule", func(t *testing.T) {
		t.Parallel()
		adaptertest.And(t, func(_ testing.TB, g *guard.Guard, work http.HandlerFunc, opts ...guard.LockOption) http.Handler {
			e := echo.New()
			routes := guardecho.Routes{
				"POST /accounts/:from/pay/:to": guardecho.Lock("account:{from}", opts...).And("account:{to}").And("tenant:{header:X-Tenant}"),
			}
			e.Use(guardecho.Annotate(g, routes))
			route(e, work)
			assert.NoError(t, guardecho.Check(e, routes))
			return e
		})
	})
	t.Run("of key functions", func(t *testing.T) {
		t.Parallel()
		adaptertest.And(t, func(_ testing.TB, g *guard.Guard, work http.HandlerFunc, opts ...guard.LockOption) http.Handler {
			e := echo.New()
			route(e, work, guardecho.Middleware(g, guardecho.Key("account:{from}"),
				guardecho.And(guardecho.Key("account:{to}"), guardecho.Key("tenant:{header:X-Tenant}")), guardecho.With(opts...)))
			return e
		})
	})
}

func TestAndIsChecked(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	key := guardecho.Key("k")
	assert.PanicsWithValue(t, "guardecho: no KeyFunc at index 0 of And", func() { guardecho.Middleware(g, key, guardecho.And(nil)) })
	assert.Panics(t, func() { guardecho.Lock("a").And("b:{") })
	assert.PanicsWithValue(t, `guardecho: row "POST /accounts/:from": the key needs 2 path parameters by name, and the path has 1`, func() {
		guardecho.Annotate(g, guardecho.Routes{"POST /accounts/:from": guardecho.Lock("account:{from}").And("account:{to}")})
	})
	e := echo.New()
	e.POST("/accounts/:from/:other", ok)
	err := guardecho.Check(e, guardecho.Routes{"POST /accounts/:from/:to": guardecho.Lock("account:{from}").And("account:{to}")})
	assert.ErrorContains(t, err, "placeholder {to}: the route has no such path value")
	one := guardecho.Lock("a")
	_ = one.And("b")
	assert.Len(t, one.Options, 1, "the rule itself stays as it is")
}
