package guardgrpc_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

// newGuard stands for guard.New(redisClient).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	must(err)
	return g
}

// registerOrders stands for what protoc makes of the service Orders.
func registerOrders(server *grpc.Server) { server.RegisterService(&description, &service{pay: keyOf}) }

// callPay stands for a call by the client that protoc makes.
func callPay(server *grpc.Server, orderID string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	client, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	defer client.Close()
	resp := dynamicpb.NewMessage(payResponse)
	err = client.Invoke(context.Background(), pay, newRequest(fmt.Sprintf("order_id: %q", orderID)), resp)
	fmt.Println(status.Code(err), resp.Get(payResponse.Fields().ByName("paid_under")))
}

// A server that locks two methods, and looks that it has them.
func Example() {
	g := newGuard()
	defer g.Close()

	methods := guardgrpc.Methods{
		"/orders.v1.Orders/Pay":  guardgrpc.Lock("order:{order_id}"),
		"/orders.v1.Orders/Talk": guardgrpc.Lock("room:{metadata:x-room}", guard.NoWait()),
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(guardgrpc.Unary(g, methods)),
		grpc.ChainStreamInterceptor(guardgrpc.Stream(g, methods)))
	registerOrders(server)
	if err := guardgrpc.Check(server.GetServiceInfo(), methods); err != nil {
		panic(err)
	}

	callPay(server, "42")
	// Output: OK order:42
}

// A row that matches nothing would lock nothing, so a program looks before it serves.
func ExampleCheck() {
	server := grpc.NewServer()
	registerOrders(server)

	fmt.Println(guardgrpc.Check(server.GetServiceInfo(), guardgrpc.Methods{
		"/orders.v1.Orders/Pya": guardgrpc.Lock("order:{order_id}"),
		"/orders.v1.Orders/Pay": guardgrpc.Lock("order:{oder_id}"),
	}))
	// Output:
	// guardgrpc: row "/orders.v1.Orders/Pay": placeholder {oder_id}: message orders.v1.PayRequest has no field oder_id
	// guardgrpc: row "/orders.v1.Orders/Pya": the server has no such method
}

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
