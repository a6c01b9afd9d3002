package guardecho_test

import (
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
)

func TestCheckNamesRowsThatLockNothing(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.POST("/orders/:id/pay", ok)
	e.Group("/api").DELETE("/orders/:order", ok)
	e.Any("/any", ok)
	e.RouteNotFound("/*", ok)
	shop := e.Host("shop.example.com")
	shop.POST("/shop/:id", ok)
	assert.NoError(t, guardecho.Check(e, guardecho.Routes{
		"POST /orders/:id/pay":   guardecho.Lock("order:{id}"),
		"PATCH /any":             guardecho.Lock("any"),
		"POST /shop/:id":         guardecho.Lock("shop:{id}"),
		"DELETE /api/orders/:id": {Key: func(echo.Context) (string, error) { return "any", nil }},
	}))
	assert.EqualError(t, guardecho.Check(e, guardecho.Routes{
		"POST /orders/:id/pay":   guardecho.Lock("order:{id}"),
		"DELETE /orders/:order":  guardecho.Lock("order:{order}"),
		"POST /nope":             guardecho.Lock("nope"),
		"DELETE /api/orders/:id": guardecho.Lock("order:{id}"),
	}), `guardecho: row "DELETE /api/orders/:id": the path of the route is "/api/orders/:order": placeholder {id}: the route has no such path value
guardecho: row "DELETE /orders/:order": there is no such route
guardecho: row "POST /nope": there is no such route`)
	assert.NoError(t, guardecho.Check(e, nil))
	assert.EqualError(t, guardecho.Check(nil, nil), "guardecho: Check: no Echo")
}

func TestPlaceholderThatARowCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	routes := guardecho.Routes{"POST /list": guardecho.Lock("order:{id}").With(guardecho.BusyStatus(423))}
	assert.PanicsWithValue(t, `guardecho: row "POST /list": the key needs 1 path parameters by name, and the path has 0`,
		func() { guardecho.Annotate(guardtest.NewGuard(t), routes) })
}
