package guardgrpc_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

// A client that got no response calls again, and gets the first one.
func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	payOnce := guardgrpc.Unary(g, guardgrpc.Methods{
		"/orders.v1.Orders/Pay": guardgrpc.Lock("pay:{metadata:x-tenant}:{metadata:idempotency-key}").Once(24 * time.Hour),
	})
	charges := 0
	charge := func(context.Context, any) (any, error) {
		charges++
		return newResponse(fmt.Sprint("charge ", charges)), nil
	}

	// A grpc.Server would do this.
	call := func(orderID string) {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-tenant", "acme", "idempotency-key", "7f9c"))
		info := &grpc.UnaryServerInfo{FullMethod: "/orders.v1.Orders/Pay"}
		_, err := payOnce(ctx, newRequest(fmt.Sprintf("order_id: %q", orderID)), info, charge)
		fmt.Println(status.Code(err), charges)
	}
	call("42")
	call("42")
	call("43") // another request with the same key
	// Output:
	// OK 1
	// OK 1
	// InvalidArgument 1
}
