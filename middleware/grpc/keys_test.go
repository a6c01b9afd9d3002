package guardgrpc_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
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
		{"{metadata:x-tenant}", ``, []string{"x-tenant", "a", "x-tenant", "a"}, "", codes.InvalidArgument},
		{"{metadata:x-bin}", ``, []string{"x-bin", "\xff"}, "", codes.InvalidArgument},
		{"{tags}", `tags: "a"`, nil, "", codes.Internal},
		{"{raw}", `raw: "a"`, nil, "", codes.Internal},
		{"{order}", `order { id: 7 }`, nil, "", codes.Internal},
		{"{order_id.id}", `order_id: "7"`, nil, "", codes.Internal},
		{"{order.name}", `order { id: 7 }`, nil, "", codes.Internal},
	} {
		shop := newShop(t, b.Guard, guardgrpc.Methods{pay: guardgrpc.Lock(row.template)}, &service{pay: keyOf})
		key, err := shop.pay(metadata.AppendToOutgoingContext(t.Context(), row.metadata...), row.request)
		assert.Equal(t, row.code, status.Code(err), "%+v: %v", row, err)
		assert.Equal(t, row.key, key, "%+v", row)
		reason, _ := detailsOf(t, err)
		assert.Equal(t, row.code != codes.OK, reason == "LOCK_KEY_INVALID", "%+v", row)
	}
}

// What is no protocol buffer has no fields.
func TestKeys_RequestOfAnotherCodec(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	call := guardgrpc.Unary(b.Guard, guardgrpc.Methods{pay: guardgrpc.Lock("{order_id}")})
	_, err := call(t.Context(), struct{}{}, &grpc.UnaryServerInfo{FullMethod: pay}, keyOf)
	assert.Equal(t, codes.Internal, status.Code(err))
	assert.ErrorContains(t, err, "the request is no protocol buffer: write LockFunc")
}

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
		`guardgrpc: row "orders.v1.Orders/Pay"` + malformed:  {"orders.v1.Orders/Pay": guardgrpc.Lock("all")},
		`guardgrpc: row "/orders.v1.Orders/"` + malformed:    {"/orders.v1.Orders/": guardgrpc.Lock("all")},
		`guardgrpc: row "/orders/v1/Pay"` + malformed:        {"/orders/v1/Pay": guardgrpc.Lock("all")},
		`guardgrpc: row "/orders.v1.Orders/Pay": no KeyFunc`: {pay: guardgrpc.LockFunc(nil)},
	} {
		assert.PanicsWithValue(t, problem, func() { guardgrpc.Unary(nil, methods) })
		assert.PanicsWithValue(t, problem, func() { guardgrpc.Stream(nil, methods) })
	}
	assert.Panics(t, func() { guardgrpc.Unary(nil, guardgrpc.Methods{pay: guardgrpc.Lock("all", guard.TTL(1))}) })
}

// A row that matches nothing would lock nothing.
func TestKeys_Check(t *testing.T) {
	t.Parallel()
	info := newShop(t, newBench(t).Guard, nil, new(service)).Info
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

	// A service whose .proto file is not linked in.
	elsewhere := map[string]grpc.ServiceInfo{"x.Y": {Methods: []grpc.MethodInfo{{Name: "Z"}}}, "orders.v1.Order": {Methods: []grpc.MethodInfo{{Name: "Z"}}}}
	assert.NoError(t, guardgrpc.Check(elsewhere, guardgrpc.Methods{"/x.Y/Z": guardgrpc.Lock("{anything}"), "/orders.v1.Order/Z": guardgrpc.Lock("{anything}")}))
}
