package guardecho_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

// held answers 200 if the request is under a lock and 204 if not.
func held(c *echo.Context) error {
	if _, ok := guard.FromContext(c.Request().Context()); ok {
		return c.NoContent(http.StatusOK)
	}
	return c.NoContent(http.StatusNoContent)
}

func TestMiddlewareOfTheWholeEcho(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Key("order:{id}")))
	e.POST("/orders/:id/pay", held)
	e.POST("", held)
	e.POST("list", held)
	e.RouteNotFound("/app/*", held)
	for target, want := range map[string]int{
		"POST /orders/7/pay":    http.StatusOK,
		"POST /orders/7/nope":   http.StatusNotFound,
		"POST /nope":            http.StatusNotFound,
		"GET /orders/7/pay":     http.StatusMethodNotAllowed,
		"OPTIONS /orders/7/pay": http.StatusNoContent,
		"GET /app/x":            http.StatusNoContent,
		"POST /":                http.StatusInternalServerError, // a route that the template does not fit
		"POST /list":            http.StatusInternalServerError,
	} {
		assert.Equal(t, want, callTarget(e, target), target)
	}
}

func TestMiddlewareOfAGroup(t *testing.T) {
	t.Parallel()
	e := echo.New()
	group := e.Group("/orders", guardecho.Middleware(guardtest.NewGuard(t), guardecho.Key("order:{id}")))
	group.POST("/:id/pay", held)
	group.POST("/list", held)
	for target, want := range map[string]int{
		"POST /orders/7/pay":  http.StatusOK,
		"POST /orders/7/nope": http.StatusNotFound,
		"POST /orders":        http.StatusNotFound,
		"POST /orders/list":   http.StatusInternalServerError,
	} {
		assert.Equal(t, want, callTarget(e, target), target)
	}
}

func TestBeforeTheRouterNothingSlipsThrough(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Key("order:{id}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusInternalServerError, callTarget(e, "POST /orders/7/pay"))
	assert.Equal(t, http.StatusInternalServerError, callTarget(e, "POST /nope"))

	e = echo.New()
	e.Pre(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Key("host:{host}")))
	e.POST("/orders/:id/pay", held)
	assert.Equal(t, http.StatusOK, callTarget(e, "POST /orders/7/pay"), "without path parameters it is fine")
}

func TestWildcardIsAParameter(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.POST("/files/*", func(c *echo.Context) error {
		lease, _ := guard.FromContext(c.Request().Context())
		return c.String(http.StatusOK, lease.Key())
	}, guardecho.Middleware(guardtest.NewGuard(t), guardecho.Key("file:{*}")))
	assert.Equal(t, "file:a/b c", call(e, "POST", "/files/a/b%20c").Body.String())
	assert.Equal(t, http.StatusBadRequest, call(e, "POST", "/files/").Code)
}

func callTarget(h http.Handler, target string) int {
	method, url, _ := strings.Cut(target, " ")
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, url, nil))
	return rec.Code
}

// Where only the method does not match, echo v5 leaves what a pooled context held before
// in the path values.
func TestParametersOfAnotherRequestAreNotTaken(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(guardecho.Middleware(guardtest.NewGuard(t), guardecho.Key("order:{id}")))
	e.POST("/orders/:id/pay", held)
	for range 20 { // some of them get a context that was used
		assert.Equal(t, http.StatusOK, callTarget(e, "POST /orders/7/pay"))
		assert.Equal(t, http.StatusMethodNotAllowed, callTarget(e, "GET /orders/7/pay"))
	}
}
