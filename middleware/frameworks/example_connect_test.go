package frameworks_test

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redlatch/redlatch/guard"
)

// payRequest stands for what protoc makes of a message that has an order's number in it.
type payRequest = wrapperspb.StringValue

func lockConnect(g *guard.Guard) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
			order, ok := req.Any().(*payRequest)
			if !ok {
				return next(ctx, req) // a call that is about no order
			}
			err = g.WithLock(ctx, guard.Keyf("order:%s", order.GetValue()), func(ctx context.Context) (own error) {
				resp, own = next(ctx, req)
				return own
			})
			switch {
			case err == nil:
				return resp, nil
			case errors.Is(err, guard.ErrLost): // never Unavailable: clients repeat that
				return nil, connect.NewError(connect.CodeUnknown, guard.ErrLost)
			case errors.Is(err, guard.ErrBusy):
				return nil, connect.NewError(connect.CodeAborted, guard.ErrBusy)
			case errors.Is(err, guard.ErrStore), errors.Is(err, guard.ErrClosed):
				return nil, connect.NewError(connect.CodeUnavailable, guard.ErrStore)
			}
			return nil, err
		}
	}
}
