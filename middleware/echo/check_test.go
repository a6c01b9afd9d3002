package guardecho_test

import (
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	guardecho "github.com/redlatch/redlatch/middleware/echo"
)

func TestCheck_NamesRowsThatLockNothing(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.POST("/orders/:id/pay", ok)
	e.Group("/api").DELETE("/orders/:order", ok)
	e.Any("/any", ok)
	e.RouteNotFound("/*", ok)
	shop := e.Host("shop.example.com")
	shop.POST("/shop/:id", ok)
	e.POST("list", ok)
	rows := guardecho.Routes{
		"POST /orders/:id/pay":      guardecho.Lock("order:{id}"),
		"POST list":                 guardecho.Lock("list"),
		"PATCH /any":                guardecho.Lock("any"),
		"DELETE /api/orders/:order": guardecho.Lock("order:{order}"),
		"POST /shop/:id":            guardecho.Lock("shop:{id}"),
	}
	assert.NoError(t, guardecho.Check(e, rows))
	rows["DELETE /orders/:order"] = guardecho.Lock("order:{order}")
	rows["DELETE /api/orders/:id"] = guardecho.Lock("order:{id}")
	rows["post /list"] = guardecho.Lock("list")
	const no = "there is no such route; a row has the full path, as the route has it"
	assert.EqualError(t, guardecho.Check(e, rows), `guardecho: row "DELETE /api/orders/:id": `+no+`
guardecho: row "DELETE /orders/:order": `+no+`
guardecho: row "post /list": no request has the method "post": methods are in upper case`)
	assert.NoError(t, guardecho.Check(e, nil))
	assert.EqualError(t, guardecho.Check(nil, nil), "guardecho: Check: no Echo")
}
