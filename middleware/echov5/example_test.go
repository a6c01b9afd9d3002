package guardecho_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardecho "github.com/redlatch/redlatch/middleware/echov5"
)

// newGuard stands for guard.New(redisClient).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

func post(h http.Handler, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, nil))
	return answer
}

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	pay := func(c *echo.Context) error {
		lease, _ := guard.FromContext(c.Request().Context())
		return c.String(http.StatusOK, "paid under "+lease.Key())
	}
	e := echo.New()
	e.POST("/orders/:id/pay", pay, guardecho.Middleware(g, guardecho.Lock("order:{id}")))

	fmt.Println(post(e, "/orders/42/pay").Body)
	// Output: paid under order:42
}

func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()

	show := func(c *echo.Context) error {
		_, locked := guard.FromContext(c.Request().Context())
		return c.String(http.StatusOK, fmt.Sprintln(c.Path(), locked))
	}
	e := echo.New()
	e.Use(guardecho.Annotate(g, guardecho.Routes{
		"POST /orders/:id/pay": guardecho.Lock("order:{id}", guard.NoWait()).BusyStatus(http.StatusLocked),
	}))
	e.POST("/orders/:id/pay", show)
	e.POST("/orders/:id/look", show)

	fmt.Print(post(e, "/orders/42/pay").Body)
	fmt.Print(post(e, "/orders/42/look").Body)
	// Output:
	// /orders/:id/pay true
	// /orders/:id/look false
}

func ExampleConfig_ToMiddleware() {
	g := newGuard()
	defer g.Close()

	guarded, err := guardecho.Config{
		Guard: g,
		Rule:  guardecho.Lock("tenant:{header:X-Tenant}:order:{id}").Unlocked(func(r *http.Request) bool { return r.URL.Query().Get("dry_run") == "1" }),
	}.ToMiddleware()
	if err != nil {
		panic(err)
	}
	e := echo.New()
	e.POST("/orders/:id/pay", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }, guarded)

	fmt.Println("without a tenant:", post(e, "/orders/42/pay").Code)
	// Output: without a tenant: 400
}

func ExampleHTTPError() {
	g := newGuard()
	defer g.Close()

	e := echo.New()
	e.POST("/stock", func(c *echo.Context) error {
		err := g.WithLock(c.Request().Context(), guard.Key("stock"), func(context.Context) error {
			return c.NoContent(http.StatusNoContent)
		}, guard.NoWait())
		return guardecho.HTTPError(c, err)
	})
	lease, err := g.Acquire(context.Background(), guard.Key("stock"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())

	answer := post(e, "/stock")
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 409 application/problem+json
}

// The tenant is what middleware found before, and left in the echo.Context.
func ExampleContext() {
	g := newGuard()
	defer g.Close()

	rule := guardecho.Lock("tenant:{tenant}:order:{id}").Value("tenant", func(r *http.Request) (string, error) {
		tenant, _ := guardecho.Context(r).Get("tenant").(string)
		return tenant, nil
	})
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { c.Set("tenant", "acme"); return next(c) }
	})
	e.POST("/orders/:id/pay", func(c *echo.Context) error {
		_, held := guard.Held(c.Request().Context(), guard.Key("tenant:acme:order:42"))
		return c.String(http.StatusOK, fmt.Sprint("held: ", held))
	}, guardecho.Middleware(g, rule))

	fmt.Println(post(e, "/orders/42/pay").Body)
	// Output: held: true
}
