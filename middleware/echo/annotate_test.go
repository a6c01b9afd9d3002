package guardecho_test

import (
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
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

func TestAnnotate_BeforeTheRouterLetsNothingSlipThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(guardecho.Annotate(guardtest.NewGuard(t), guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}))
	e.POST("/orders/:id/pay", showKey)
	assert.Equal(t, "Internal Server Error", ask(e, "POST /orders/7/pay"))
}

func TestAnnotate_MalformedRowsAreRefused(t *testing.T) {
	t.Parallel()
	g, ok := guardtest.NewGuard(t), guardecho.Lock("order:{id}")
	for want, routes := range map[string]guardecho.Routes{
		`guardecho: row "POST /a": no KeyFunc`:                                            {"POST /a": {}},
		`guardecho: row "POST /a": guard: TTL`:                                            {"POST /a": guardecho.Lock("a", guard.TTL(1))},
		`guardecho: row "/a": a route is a method and a path`:                             {"/a": ok},
		`guardecho: row "POST ": a route is a method and a path`:                          {"POST ": ok},
		`guardecho: row "POST  /a": a route is a method and a path`:                       {"POST  /a": ok},
		`guardecho: row "post /a": no request has the method "post"`:                      {"post /a": ok},
		`guardecho: row "POST /{id}": this router writes path parameters as`:              {"POST /{id}": ok},
		`guardecho: row "POST list": the same requests have the row "POST /list"`:         {"POST list": guardecho.Lock("a"), "POST /list": guardecho.Lock("a")},
		`guardecho: row "POST /list": placeholder {id}: the route has no such path value`: {"POST /list": ok},
		`guardecho: row "POST /:a": placeholder {b}: the route has no such path value`:    {"POST /:a": guardecho.Lock("{a}").And("{b}")},
	} {
		assert.Contains(t, adaptertest.PanicText(func() { guardecho.Annotate(g, routes) }), want)
	}
	assert.Contains(t, adaptertest.PanicText(func() { guardecho.Lock("order:{id") }), "column 7")
	assert.NotPanics(t, func() { guardecho.Annotate(nil, nil) })
}
