package frameworks_test

import (
	"context"
	"errors"

	"github.com/go-kit/kit/endpoint"

	"github.com/redlatch/redlatch/guard"
)

// lockEndpoint leaves it to the transport's ServerErrorEncoder to answer guard's errors.
func lockEndpoint(g *guard.Guard, key func(request any) guard.KeyFunc) endpoint.Middleware {
	return func(next endpoint.Endpoint) endpoint.Endpoint {
		return func(ctx context.Context, request any) (response any, err error) {
			err = g.WithLock(ctx, key(request), func(ctx context.Context) (own error) {
				response, own = next(ctx, request)
				return own
			})
			if errors.Is(err, guard.ErrLost) {
				response = nil
			}
			return response, err
		}
	}
}
