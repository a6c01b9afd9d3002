package frameworks_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
)

func lockOrders(g *guard.Guard) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, own error) {
		order, ok := req.(interface{ GetOrderId() string })
		if !ok {
			return handler(ctx, req) // a call that is about no order
		}
		key := guard.Keyf("order:%s", order.GetOrderId())
		err := g.WithLock(ctx, key, func(ctx context.Context) error {
			resp, own = handler(ctx, req)
			return own
		}, guard.Wait(2*time.Second), guard.Name(info.FullMethod))
		if err == nil || own != nil && !errors.Is(err, guard.ErrLost) {
			return resp, own // the handler's, unchanged
		}
		return nil, lockStatus(err)
	}
}

func lockStatus(err error) error {
	switch {
	case errors.Is(err, guard.ErrLost):
		return status.Error(codes.Unknown, "the lock was lost during the call: its outcome is not known")
	case errors.Is(err, guard.ErrKey):
		return status.Error(codes.InvalidArgument, "the request does not say which order it is for")
	case errors.Is(err, guard.ErrStore), errors.Is(err, guard.ErrClosed):
		return status.Error(codes.Unavailable, "the order cannot be locked at the moment")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, guard.ErrBusy):
		return status.Error(codes.Aborted, "another call works on this order")
	}
	return status.Error(codes.Internal, "the server is not set up to lock this order")
}

// Unary calls of gRPC, by an interceptor.
func Example_grpc() {
	g := newGuard()
	defer g.Close()

	server := grpc.NewServer(grpc.ChainUnaryInterceptor(lockOrders(g)))
	defer server.Stop()

	// A call of the server would do this.
	pay := func(ctx context.Context, _ any) (any, error) {
		lease, _ := guard.FromContext(ctx)
		return "paid under " + lease.Key(), nil
	}
	resp, err := lockOrders(g)(context.Background(), &payRequest{OrderID: "42"}, &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Pay"}, pay)
	fmt.Println(resp, err)
	// Output: paid under order:42 <nil>
}

// payRequest stands for what protoc makes of PayRequest { string order_id = 1; }.
type payRequest struct{ OrderID string }

func (r *payRequest) GetOrderId() string { return r.OrderID }
