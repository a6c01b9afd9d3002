package guardecho_test

import (
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echo"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func showKey(c echo.Context) error {
	adaptertest.KeyOrNone(c.Response(), c.Request())
	return nil
}

func TestAnnotate_RowsApplyToTheirRoutes(t *testing.T) {
	t.Parallel()
	rows := guardecho.Routes{}
	for row, template := range adaptertest.EchoRows {
		rows[row] = guardecho.Lock(template)
	}
	e := echo.New()
	e.Use(guardecho.Annotate(guardtest.NewGuard(t), rows))
	for _, route := range adaptertest.EchoRoutes {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, path, showKey)
	}
	e.Any("/any", showKey)
	e.Group("/admin").POST("/orders/:id/pay", showKey)
	adaptertest.EchoRowsApply(t, e)
}

func TestAnnotate_RowsOfAGroup(t *testing.T) {
	t.Parallel()
	e := echo.New()
	group := e.Group("/admin", guardecho.Annotate(guardtest.NewGuard(t), guardecho.Routes{
		"POST /admin/orders/:id/pay": guardecho.Lock("order:{id}"),
	}))
	group.POST("/orders/:id/pay", showKey)
	group.POST("/list", showKey)
	assert.Equal(t, "order:7", ask(e, "POST /admin/orders/7/pay"))
	assert.Equal(t, "none", ask(e, "POST /admin/list"))
	assert.Equal(t, "Not Found", ask(e, "POST /admin/nope"))
}
