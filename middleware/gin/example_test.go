package guardgin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgin "github.com/redlatch/redlatch/middleware/gin"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
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

// pay is a handler. The context is c.Request.Context(): it ends when the lock is lost.
func pay(c *gin.Context) {
	lease, locked := guard.FromContext(c.Request.Context())
	if !locked {
		c.String(http.StatusOK, "paid without a lock")
		return
	}
	c.String(http.StatusOK, "paid under "+lease.Key())
}

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	engine := gin.New()
	engine.POST("/orders/:id/pay", guardgin.Middleware(g, guardgin.Lock("order:{id}")), pay)

	fmt.Println(post(engine, "/orders/42/pay").Body)
	// Output: paid under order:42
}

func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()

	engine := gin.New()
	engine.Use(guardgin.Annotate(g, guardgin.Routes{
		"POST /orders/:id/pay": guardgin.Lock("order:{id}"),
		"DELETE /orders/:id":   guardgin.Lock("order:{id}", guard.NoWait()),
	}))
	engine.POST("/orders/:id/pay", pay)
	engine.POST("/orders/:id/look", pay)
	engine.DELETE("/orders/:id", pay)

	fmt.Println(post(engine, "/orders/42/pay").Body)
	fmt.Println(post(engine, "/orders/42/look").Body)
	// Output:
	// paid under order:42
	// paid without a lock
}

// An own page for a busy order, and the usual answer for all else.
func ExampleContext() {
	g := newGuard()
	defer g.Close()
	lease, err := g.Acquire(context.Background(), guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())

	rule := guardgin.Lock("order:{id}", guard.NoWait()).OnError(func(w http.ResponseWriter, r *http.Request, err error) {
		if c := guardgin.Context(r); errors.Is(err, guard.ErrBusy) {
			c.String(http.StatusConflict, "This order is being paid.")
			return
		}
		guardhttp.WriteError(w, r, err)
	})
	engine := gin.New()
	engine.POST("/orders/:id/pay", guardgin.Middleware(g, rule), pay)

	fmt.Println(post(engine, "/orders/42/pay").Body)
	// Output: This order is being paid.
}

func ExampleWriteError() {
	g := newGuard()
	defer g.Close()

	engine := gin.New()
	engine.POST("/stock", func(c *gin.Context) {
		err := g.WithLock(c.Request.Context(), guard.Key("stock"), func(context.Context) error {
			c.Status(http.StatusNoContent)
			return nil
		}, guard.NoWait())
		guardgin.WriteError(c, err)
	})
	lease, err := g.Acquire(context.Background(), guard.Key("stock"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(context.Background())

	answer := post(engine, "/stock")
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 409 application/problem+json
}
