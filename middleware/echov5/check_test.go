package guardecho_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

func TestCheckNamesRowsThatLockNothing(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.POST("/orders/:id/pay", ok)
	e.Group("/api").DELETE("/orders/:order", ok)
	e.Any("/any", ok)
	e.RouteNotFound("/*", ok)
	assert.NoError(t, guardecho.Check(e, guardecho.Routes{
		"POST /orders/:id/pay":   guardecho.Lock("order:{id}"),
		"PATCH /any":             guardecho.Lock("any"),
		"DELETE /api/orders/:id": {Key: func(*echo.Context) (string, error) { return "any", nil }},
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

// Where a HEAD request has a route for GET, the rows for GET apply.
func TestCheckKnowsThatHEADIsServedByGET(t *testing.T) {
	t.Parallel()
	e := echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
	e.Use(guardecho.Annotate(guardtest.NewGuard(t), guardecho.Routes{
		"GET /a":  guardecho.Lock("a"),
		"HEAD /a": guardecho.Lock("head"),
	}))
	e.GET("/a", held)
	assert.Equal(t, http.StatusOK, callTarget(e, "HEAD /a"))
	err := guardecho.Check(e, guardecho.Routes{"GET /a": guardecho.Lock("a"), "HEAD /a": guardecho.Lock("head")})
	assert.EqualError(t, err, `guardecho: row "HEAD /a": there is no such route`)
}
