package frameworks_test

import (
	"context"
	"errors"
	"net/http"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/redlatch/redlatch/guard"
)

func lockHertz(g *guard.Guard) app.HandlerFunc {
	return func(ctx context.Context, c *app.RequestContext) {
		err := g.WithLock(ctx, guard.Keyf("order:%s", c.Param("id")), func(ctx context.Context) error {
			c.Next(ctx) // ends if the lock is lost
			return nil
		})
		switch {
		case err == nil:
		case errors.Is(err, guard.ErrLost):
			c.Response.Reset() // what the handler wrote is not sent yet
			c.AbortWithStatus(http.StatusInternalServerError)
		case errors.Is(err, guard.ErrBusy):
			c.AbortWithStatus(http.StatusConflict)
		default:
			c.AbortWithStatus(http.StatusServiceUnavailable)
		}
	}
}
