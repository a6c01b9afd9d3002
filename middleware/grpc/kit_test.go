package guardgrpc_test

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

const (
	pay  = "/orders.v1.Orders/Pay"
	talk = "/orders.v1.Orders/Talk"
)

// orders is what protoc would make Go code of.
const orders = `
name: "orders.proto" package: "orders.v1" syntax: "proto3"
enum_type { name: "Kind" value { name: "NONE" number: 0 } value { name: "RUSH" number: 3 } }
message_type { name: "Order"
  field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }
message_type { name: "PayRequest"
  field { name: "order_id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "order" number: 2 type: TYPE_MESSAGE type_name: ".orders.v1.Order" label: LABEL_OPTIONAL }
  field { name: "kind" number: 3 type: TYPE_ENUM type_name: ".orders.v1.Kind" label: LABEL_OPTIONAL }
  field { name: "shard" number: 4 type: TYPE_UINT32 label: LABEL_OPTIONAL proto3_optional: true oneof_index: 0 }
  field { name: "tags" number: 5 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "raw" number: 6 type: TYPE_BYTES label: LABEL_OPTIONAL }
  oneof_decl { name: "_shard" } }
message_type { name: "PayResponse"
  field { name: "paid_under" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL } }
service { name: "Orders"
  method { name: "Pay" input_type: ".orders.v1.PayRequest" output_type: ".orders.v1.PayResponse" }
  method { name: "Talk" input_type: ".orders.v1.PayRequest" output_type: ".orders.v1.PayResponse"
    client_streaming: true server_streaming: true } }`

var payRequest, payResponse = link()

// link makes the messages of orders known, as generated code does.
func link() (request, response protoreflect.MessageDescriptor) {
	described := new(descriptorpb.FileDescriptorProto)
	must(prototext.Unmarshal([]byte(orders), described))
	file, err := protodesc.NewFile(described, protoregistry.GlobalFiles)
	must(err)
	must(protoregistry.GlobalFiles.RegisterFile(file))
	return file.Messages().ByName("PayRequest"), file.Messages().ByName("PayResponse")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// newRequest makes a PayRequest out of its text form.
func newRequest(text string) proto.Message {
	m := dynamicpb.NewMessage(payRequest)
	must(prototext.Unmarshal([]byte(text), m))
	return m
}

func newResponse(paidUnder string) proto.Message {
	m := dynamicpb.NewMessage(payResponse)
	m.Set(payResponse.Fields().ByName("paid_under"), protoreflect.ValueOfString(paidUnder))
	return m
}

// keyOf is a handler that answers with the key that it is under.
func keyOf(ctx context.Context, _ any) (any, error) {
	lease, _ := guard.FromContext(ctx)
	return newResponse(lease.Key()), nil
}

// service has what its methods do.
type service struct {
	pay  grpc.UnaryHandler
	talk func(grpc.ServerStream) error
}

// description is what protoc would make of the service.
var description = grpc.ServiceDesc{
	ServiceName: "orders.v1.Orders", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Pay", Handler: func(srv any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
		req := dynamicpb.NewMessage(payRequest)
		if err := decode(req); err != nil {
			return nil, err
		}
		return through(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: pay}, srv.(*service).pay)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(srv any, ss grpc.ServerStream) error {
		return srv.(*service).talk(ss)
	}}},
}

// shop is a server on loopback, with a client of it.
type shop struct {
	*grpc.ClientConn
	calls atomic.Int32 // that came to the server
	fails chan error   // what interceptors around ours saw
	Info  map[string]grpc.ServiceInfo
}

// retries is a client's configuration. Its own pause is an hour: without what the server
// says, no second call is made in time.
const retries = `{"methodConfig": [{"name": [{"service": "orders.v1.Orders"}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "3600s", "maxBackoff": "3600s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["ABORTED", "UNAVAILABLE", "UNKNOWN", "RESOURCE_EXHAUSTED"]}}]}`

func newShop(t *testing.T, g *guard.Guard, methods guardgrpc.Methods, s *service, options ...grpc.DialOption) *shop {
	t.Helper()
	shop := &shop{fails: make(chan error, 100)}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(shop.outer, guardgrpc.Unary(g, methods)), grpc.ChainStreamInterceptor(guardgrpc.Stream(g, methods)))
	server.RegisterService(&description, s)
	shop.Info = server.GetServiceInfo()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	shop.ClientConn, err = grpc.NewClient(listener.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, shop.Close())
		server.Stop()
		assert.NoError(t, <-served)
	})
	return shop
}

// direct makes a call of Pay under a rule, without a connection.
func direct(g *guard.Guard, rule guardgrpc.Rule) func(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	unary := guardgrpc.Unary(g, guardgrpc.Methods{pay: rule})
	return func(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
		return unary(ctx, req, &grpc.UnaryServerInfo{FullMethod: pay}, handler)
	}
}

// returns is a handler that returns a response.
func returns(response any) grpc.UnaryHandler {
	return func(context.Context, any) (any, error) { return response, nil }
}

// outer counts calls, and answers for panics.
func (s *shop) outer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	s.calls.Add(1)
	defer func() {
		if r := recover(); r != nil {
			err = status.Errorf(13, "panic: %v", r)
		}
		s.fails <- err
	}()
	return handler(ctx, req)
}

// pay calls Pay, and gives the key that it ran under.
func (s *shop) pay(ctx context.Context, request string, options ...grpc.CallOption) (string, error) {
	resp := dynamicpb.NewMessage(payResponse)
	err := s.Invoke(ctx, pay, newRequest(request), resp, options...)
	return resp.Get(payResponse.Fields().ByName("paid_under")).String(), err
}

func (s *shop) talk(ctx context.Context, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.NewStream(ctx, &description.Streams[0], talk, options...)
}

type bench = *adaptertest.Bench

// detailsOf gives the reason of a status, and whether it says when to try again.
func detailsOf(t *testing.T, err error) (reason string, again bool) {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			assert.Equal(t, "redlatch", detail.GetDomain())
			reason = detail.GetReason()
		case *errdetails.RetryInfo:
			assert.GreaterOrEqual(t, detail.GetRetryDelay().AsDuration().Seconds(), 1.0)
			again = true
		}
	}
	return reason, again
}

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }
