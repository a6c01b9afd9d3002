package frameworks_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/guard"
	guardhttp "github.com/redlatch/redlatch/middleware/nethttp"
)

func lock(g *guard.Guard, template string) gin.HandlerFunc {
	key, err := guardhttp.ParseKey(template)
	if err != nil {
		panic(err)
	}
	return func(c *gin.Context) {
		r := c.Request
		r.Pattern = r.Method + " " + c.FullPath()
		defer func() { c.Request = r }()
		for _, p := range c.Params {
			r.SetPathValue(p.Key, p.Value)
		}
		keyOf := func(context.Context) (string, error) { return key(r) }
		err := g.WithLock(r.Context(), keyOf, func(ctx context.Context) error {
			c.Request = r.WithContext(ctx) // ends if the lock is lost
			c.Next()
			return nil
		}, guard.Wait(2*time.Second), guard.Name(r.Pattern))
		if err != nil {
			c.Abort() // without the lock, the handlers behind do not run
			guardhttp.WriteError(c.Writer, r, err)
		}
	}
}

// One route of gin, by middleware of its own. In the handler, the context is
// c.Request.Context(): c itself knows nothing of the lock.
func Example_ginRoute() {
	g := newGuard()
	defer g.Close()

	engine := gin.New()
	engine.POST("/orders/:id/pay", lock(g, "order:{id}"), func(c *gin.Context) {
		lease, _ := guard.FromContext(c.Request.Context())
		c.String(http.StatusOK, "paid under "+lease.Key())
	})

	fmt.Println(postAs(engine, "acme", "/orders/42/pay").Body)
	// Output: paid under order:42
}
