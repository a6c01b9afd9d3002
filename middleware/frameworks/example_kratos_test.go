package frameworks_test

import (
	"context"
	"errors"

	kratos "github.com/go-kratos/kratos/v2/errors"
	"github.com/go-kratos/kratos/v2/middleware"

	"github.com/redlatch/redlatch/guard"
)

func lockKratos(g *guard.Guard, key func(req any) guard.KeyFunc) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req any) (reply any, err error) {
			err = g.WithLock(ctx, key(req), func(ctx context.Context) (own error) {
				reply, own = next(ctx, req)
				return own
			})
			switch {
			case errors.Is(err, guard.ErrLost):
				return nil, kratos.InternalServer("LOCK_LOST", "the outcome is not known").WithCause(err)
			case errors.Is(err, guard.ErrBusy):
				return nil, kratos.Conflict("LOCK_BUSY", "another call works on this order").WithCause(err)
			case errors.Is(err, guard.ErrStore), errors.Is(err, guard.ErrClosed):
				return nil, kratos.ServiceUnavailable("LOCK_STORE_UNAVAILABLE", "try again later").WithCause(err)
			}
			return reply, err
		}
	}
}
