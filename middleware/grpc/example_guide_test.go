package guardgrpc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

// The test in docs/guides/grpc.md.
func TestGuide_ABusyMethod(t *testing.T) {
	methods := guardgrpc.Methods{pay: guardgrpc.Lock("order:{order_id}")}
	request, handler := newRequest(`order_id: "42"`), func(context.Context, any) (any, error) { return newResponse(""), nil }
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another call has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		info := &grpc.UnaryServerInfo{FullMethod: "/orders.v1.Orders/Pay"}
		_, err = guardgrpc.Unary(g, methods)(t.Context(), request, info, handler) // waits 2 s of the bubble
		if status.Code(err) != codes.Aborted {
			t.Errorf("got %v, want Aborted", err)
		}
	})
}
