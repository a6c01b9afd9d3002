package guardecho_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func held(c echo.Context) error {
	adaptertest.Held(c.Response(), c.Request())
	return nil
}

func TestRoutes_MiddlewareOfTheWholeEcho(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	e.POST("/orders/:id/pay", held)
	e.POST("", held)
	e.POST("list", held)
	e.RouteNotFound("/app/*", held)
	adaptertest.EchoWhole(t, e)
}

func TestRoutes_MiddlewareOfAGroup(t *testing.T) {
	t.Parallel()
	e := echo.New()
	group := e.Group("/orders", guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	group.POST("/:id/pay", held)
	group.POST("/list", held)
	adaptertest.EchoGroup(t, e)
}

func TestRoutes_BeforeTheRouterNothingSlipsThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("order:{id}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusInternalServerError, callTarget(e, "POST /orders/7/pay"))
	assert.Equal(t, http.StatusNotFound, callTarget(e, "POST /nope"))

	e = echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Lock("host:{host}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusOK, callTarget(e, "POST /orders/7/pay"), "without path parameters it is fine")
}
