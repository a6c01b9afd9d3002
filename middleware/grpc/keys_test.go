package guardgrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redlatch/redlatch/guard"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func TestKeys_OfFieldsAndMetadata(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	for _, row := range []struct {
		template, request string
		metadata          []string
		key               string
		code              codes.Code
	}{
		{"order:{order_id}", `order_id: "7"`, nil, "order:7", codes.OK},
		{"{order_id}:{order.id}", `order_id: "a:b" order { id: -7 }`, nil, guard.JoinKey("a:b", "-7"), codes.OK},
		{"{kind}:{shard}", `kind: RUSH shard: 0`, nil, "3:0", codes.OK},
		{"{kind}", `kind: 8`, nil, "8", codes.OK},
		{"{metadata:X-Tenant}:{order_id}", `order_id: "7"`, []string{"x-tenant", "acme"}, "acme:7", codes.OK},
		{"all", ``, nil, "all", codes.OK},
		{"{order_id}", ``, nil, "", codes.InvalidArgument},
		{"{order.id}", ``, nil, "", codes.InvalidArgument},
		{"{order.id}", `order { id: 0 }`, nil, "", codes.InvalidArgument},
		{"{shard}", ``, nil, "", codes.InvalidArgument},
		{"{kind}", `kind: NONE`, nil, "", codes.InvalidArgument},
		{"{order_id}", `order_id: "` + strings.Repeat("x", guard.MaxKeyLength+1) + `"`, nil, "", codes.InvalidArgument},
		{"{metadata:x-bin}", ``, []string{"x-bin", "\xff"}, "", codes.InvalidArgument},
		{"{order_id.id}", `order_id: "7"`, nil, "", codes.Internal},
	} {
		shop := newShop(t, b.Guard, guardgrpc.Methods{pay: guardgrpc.Lock(row.template)}, &service{pay: keyOf})
		key, err := shop.pay(metadata.AppendToOutgoingContext(t.Context(), row.metadata...), row.request)
		assert.Equal(t, row.code, status.Code(err), "%+v: %v", row, err)
		assert.Equal(t, row.key, key, "%+v", row)
		reason, _ := detailsOf(t, err)
		assert.Equal(t, row.code != codes.OK, reason == "LOCK_KEY_INVALID", "%+v", row)
	}
}

func TestKeys_ValueFillsAPlaceholder(t *testing.T) {
	t.Parallel()
	tenant := func(_ context.Context, req any) (string, error) {
		return "a:" + string(req.(proto.Message).ProtoReflect().Descriptor().Name()), nil
	}
	rule := guardgrpc.Lock("{tenant}:{order_id}").Value("tenant", tenant)
	resp, err := direct(adaptertest.NewBench(t).Guard, rule)(t.Context(), newRequest(`order_id: "7"`), keyOf)
	assert.NoError(t, err)
	assert.True(t, proto.Equal(newResponse("a%3APayRequest:7"), resp.(proto.Message)), "%v", resp)
	assert.Panics(t, func() { direct(nil, guardgrpc.Lock("{tenant}").Value("tenant", nil)) })
}

// The error names the problem of a placeholder. Outer interceptors see it.
func TestKeys_ErrorNamesTheProblemOfAPlaceholder(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	twice := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-tenant", "a", "x-tenant", "a"))
	for _, row := range []struct {
		template string
		request  any
		problem  string
		code     codes.Code
	}{
		{"{metadata:x-tenant}", newRequest(""), "given more than once", codes.InvalidArgument},
		{"{order_id}", struct{}{}, "the request is no protocol buffer: write LockFunc", codes.Internal},
		{"{oder_id}", newRequest(""), "message orders.v1.PayRequest has no field oder_id", codes.Internal},
		{"{tags}", newRequest(`tags: "a"`), "field orders.v1.PayRequest.tags is repeated", codes.Internal},
		{"{order}", newRequest(""), "field orders.v1.PayRequest.order is no string, integer or enum", codes.Internal},
		{"{value}", wrapperspb.Bool(true), "is no string, integer or enum", codes.Internal},
		{"{value}", wrapperspb.Float(1), "is no string, integer or enum", codes.Internal},
		{"{value}", wrapperspb.Double(1), "is no string, integer or enum", codes.Internal},
		{"{value}", wrapperspb.Bytes([]byte("a")), "is no string, integer or enum", codes.Internal},
	} {
		_, err := direct(b.Guard, guardgrpc.Lock(row.template))(twice, row.request, nil)
		assert.Equal(t, row.code, status.Code(err), "%+v", row)
		assert.ErrorContains(t, err, row.problem)
	}
	stream := guardgrpc.Stream(b.Guard, guardgrpc.Methods{talk: guardgrpc.Lock("{order_id}")})
	err := stream(nil, contextStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: talk}, nil)
	assert.ErrorContains(t, err, "a stream has no request message when it begins")
}

// contextStream is a stream that has a context only.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

func TestKeys_MalformedTemplatesAndRowsPanic(t *testing.T) {
	t.Parallel()
	for template, problem := range map[string]string{
		"{order..id}":       `guardgrpc: key template "{order..id}": column 2: "order..id" is not the name of a field`,
		"{order-id}":        `guardgrpc: key template "{order-id}": column 2: "order-id" is not the name of a field`,
		"{metadata:a b}":    `guardgrpc: key template "{metadata:a b}": column 2: "a b" is not the name of metadata`,
		"{header:x-tenant}": `guardgrpc: key template "{header:x-tenant}": column 2: no placeholder is of the kind "header"`,
	} {
		assert.PanicsWithValue(t, problem, func() { guardgrpc.Lock(template) })
		assert.PanicsWithValue(t, problem, func() { guardgrpc.Lock("all").And(template) })
	}
	malformed := ": a method is a service and its method, as in \"/orders.v1.Orders/Pay\""
	for problem, methods := range map[string]guardgrpc.Methods{
		`guardgrpc: row "Pay"` + malformed:                   {"Pay": guardgrpc.Lock("all")},
		`guardgrpc: row "/orders.v1.Orders/"` + malformed:    {"/orders.v1.Orders/": guardgrpc.Lock("all")},
		`guardgrpc: row "//Pay"` + malformed:                 {"//Pay": guardgrpc.Lock("all")},
		`guardgrpc: row "/orders/v1/Pay"` + malformed:        {"/orders/v1/Pay": guardgrpc.Lock("all")},
		`guardgrpc: row "/orders.v1.Orders/Pay": no KeyFunc`: {pay: guardgrpc.LockFunc(nil)},
	} {
		assert.PanicsWithValue(t, problem, func() { guardgrpc.Unary(nil, methods) })
		assert.PanicsWithValue(t, problem, func() { guardgrpc.Stream(nil, methods) })
	}
	assert.Panics(t, func() { direct(nil, guardgrpc.Lock("all", guard.TTL(1))) })
	namesNone := guardgrpc.Lock("pay:{order_id}:{metadata:idempotency-key}").Once(time.Hour)
	assert.Contains(t, adaptertest.PanicText(func() { direct(nil, namesNone) }), "the template names no caller")
}

// A row that matches nothing would lock nothing.
func TestCheck_NamesRowsThatLockNothing(t *testing.T) {
	t.Parallel()
	info := newShop(t, adaptertest.NewBench(t).Guard, nil, new(service)).Info
	assert.NoError(t, guardgrpc.Check(info, guardgrpc.Methods{
		pay:  guardgrpc.Lock("{metadata:x-tenant}:{order_id}").And("{order.id}"),
		talk: guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "all", nil }).And("{metadata:x-tenant}"),
	}))
	err := guardgrpc.Check(info, guardgrpc.Methods{
		"/orders.v1.Orders/Play": guardgrpc.Lock("all"),
		"/orders.v2.Orders/Pay":  guardgrpc.Lock("all"),
		"Pay":                    guardgrpc.Lock("all"),
		pay:                      guardgrpc.Lock("{order_id}").And("{oder_id}"),
		talk:                     guardgrpc.Lock("{order_id}"),
	})
	assert.EqualError(t, err, strings.Join([]string{
		`guardgrpc: row "/orders.v1.Orders/Pay": placeholder {oder_id}: message orders.v1.PayRequest has no field oder_id`,
		`guardgrpc: row "/orders.v1.Orders/Play": the server has no such method`,
		`guardgrpc: row "/orders.v1.Orders/Talk": placeholder {order_id}: a stream has no request message when it begins: write {metadata:name}, or LockFunc`,
		`guardgrpc: row "/orders.v2.Orders/Pay": the server has no such method`,
		`guardgrpc: row "Pay": the server has no such method`,
	}, "\n"))

	err = guardgrpc.Check(info, guardgrpc.Methods{pay: guardgrpc.Lock("{order_id.id}")})
	assert.ErrorContains(t, err, "placeholder {order_id.id}: field orders.v1.PayRequest.order_id is no message")

	for _, stream := range []grpc.MethodInfo{{Name: "Pay", IsClientStream: true}, {Name: "Pay", IsServerStream: true}} {
		half := map[string]grpc.ServiceInfo{"orders.v1.Orders": {Methods: []grpc.MethodInfo{stream}}}
		err = guardgrpc.Check(half, guardgrpc.Methods{pay: guardgrpc.Lock("{order_id}")})
		assert.ErrorContains(t, err, "a stream has no request message", "%+v", stream)
	}

	// The server has a newer service than the .proto file that is linked in, or one whose file is not.
	for _, service := range []string{"orders.v1.Orders", "x.Y"} {
		newer := map[string]grpc.ServiceInfo{service: {Methods: []grpc.MethodInfo{{Name: "Refund"}}}}
		assert.NoError(t, guardgrpc.Check(newer, guardgrpc.Methods{"/" + service + "/Refund": guardgrpc.Lock("{anything}")}))
	}
}
