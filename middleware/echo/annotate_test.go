package guardecho_test

import (
	"net/http"
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

func TestRowsApplyToTheirRoutes(t *testing.T) {
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

func TestRowsOfAGroup(t *testing.T) {
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

func TestAnnotateBeforeTheRouterLetsNothingSlipThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(guardecho.Annotate(guardtest.NewGuard(t), guardecho.Routes{"POST /orders/:id/pay": guardecho.Lock("order:{id}")}))
	e.POST("/orders/:id/pay", showKey)
	assert.Equal(t, "Internal Server Error", ask(e, "POST /orders/7/pay"))
}

func TestOptionsOfRowsComeBehindThoseOfAll(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := busy(t, guard.Observe(recorder))
	plain := guardecho.Lock("order:{id}", guard.NoWait())
	e := echo.New()
	e.Use(guardecho.Annotate(g, guardecho.Routes{
		"POST /orders/:id/pay":  plain,
		"POST /orders/:id/ship": plain.With(guardecho.BusyStatus(423), guardecho.With(guard.Name("ship"))),
		"POST /orders/:id/skip": plain.With(guardecho.Skip(func(c echo.Context) bool { return c.Param("id") == "7" })),
		"POST /orders/:id/own": plain.With(guardecho.OnError(func(c echo.Context, err error) error {
			assert.ErrorIs(t, err, guard.ErrBusy)
			return c.NoContent(http.StatusGone)
		})),
	}, guardecho.BusyStatus(429)))
	for _, what := range []string{"pay", "ship", "skip", "own"} {
		e.POST("/orders/:id/"+what, showKey)
	}
	assert.Equal(t, "Too Many Requests", ask(e, "POST /orders/7/pay"), "With leaves the Rule as it is")
	assert.Equal(t, "Locked", ask(e, "POST /orders/7/ship"))
	assert.Equal(t, "none", ask(e, "POST /orders/7/skip"))
	assert.Equal(t, "Gone", ask(e, "POST /orders/7/own"))

	var names []string
	for _, o := range recorder.Observations("WaitStart") {
		names = append(names, o.Lock.Name)
	}
	assert.Equal(t, []string{"default", "POST /orders/:id/pay", "ship", "POST /orders/:id/own"}, names)
}

func TestMalformedRowsAreRefused(t *testing.T) {
	t.Parallel()
	g, ok := guardtest.NewGuard(t), guardecho.Lock("order:{id}")
	for want, routes := range map[string]guardecho.Routes{
		`guardecho: row "POST /a": no KeyFunc`:                                     {"POST /a": {}},
		`guardecho: row "POST /a": guard: TTL`:                                     {"POST /a": guardecho.Lock("a", guard.TTL(1))},
		`guardecho: row "/a": a route is a method and a path`:                      {"/a": ok},
		`guardecho: row "POST ": a route is a method and a path`:                   {"POST ": ok},
		`guardecho: row "POST  /a": a route is a method and a path`:                {"POST  /a": ok},
		`guardecho: row "post /a": no request has the method "post"`:               {"post /a": ok},
		`guardecho: row "POST /{id}": echo writes path parameters as`:              {"POST /{id}": ok},
		`guardecho: row "POST /:b/x": the same requests have the row "POST /:a/x"`: {"POST /:a/x": ok, "POST /:b/x": ok},
	} {
		assert.Contains(t, adaptertest.PanicText(func() { guardecho.Annotate(g, routes) }), want)
	}
	assert.Contains(t, adaptertest.PanicText(func() { guardecho.Lock("order:{id") }), "column 7")
	assert.NotPanics(t, func() { guardecho.Annotate(nil, nil, nil) })
}
