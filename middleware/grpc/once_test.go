package guardgrpc_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redlatch/redlatch/guard"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func paysOnce(opts ...guard.OnceOption) guardgrpc.Methods {
	return guardgrpc.Methods{pay: pays(guard.NoWait()).Once(time.Hour, opts...).SharedAnswer()}
}

func replayed(header metadata.MD) bool {
	return strings.Join(header.Get("idempotent-replayed"), ",") == "true"
}

func TestOnce_ACallThatComesAgainGetsTheFirstResponse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls atomic.Int32
	shop := newShop(t, b.Guard, paysOnce(), &service{pay: func(ctx context.Context, req any) (any, error) {
		if calls.Add(1) == 1 {
			return newResponse("none"), errOwn // an error is not kept
		}
		return keyOf(ctx, req)
	}})
	_, err := shop.pay(t.Context(), `order_id: "7"`)
	assert.Equal(t, codes.FailedPrecondition, status.Code(err))
	for i := range 3 {
		var header metadata.MD
		key, err := shop.pay(t.Context(), `order_id: "7" tags: "a"`, grpc.Header(&header))
		require.NoError(t, err)
		assert.Equal(t, "order:7", key)
		assert.Equal(t, i > 0, replayed(header))
	}
	assert.EqualValues(t, 2, calls.Load())
	_, err = shop.pay(t.Context(), `order_id: "8" tags: "a"`)
	require.NoError(t, err)
	assert.EqualValues(t, 3, calls.Load())
}

// A retry that cannot get the first response is refused, and told not to retry again.
func TestOnce_Answers(t *testing.T) {
	t.Parallel()
	large := newResponse(strings.Repeat("x", 100))
	for name, row := range map[string]struct {
		opts    []guard.OnceOption
		first   func() (any, error)
		request string
		want    want
	}{
		"another request": {
			nil, func() (any, error) { return newResponse("7"), nil }, `order_id: "7" shard: 2`,
			want{codes.InvalidArgument, "IDEMPOTENCY_KEY_REUSED", "", guard.ErrOtherInput},
		},
		"crashed, at most once": {
			[]guard.OnceOption{guard.AtMostOnce()},
			func() (any, error) { panic("own") }, `order_id: "7"`,
			want{codes.FailedPrecondition, "IDEMPOTENCY_OUTCOME_UNKNOWN", "-1", guard.ErrUnknownOutcome},
		},
		"too large": {
			[]guard.OnceOption{guard.MaxResult(100)},
			func() (any, error) { return large, nil }, `order_id: "7"`,
			want{codes.FailedPrecondition, "IDEMPOTENCY_RESULT_NOT_KEPT", "-1", guard.ErrNotKept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var calls atomic.Int32
			shop := newShop(t, b.Guard, paysOnce(row.opts...), &service{pay: func(context.Context, any) (any, error) {
				calls.Add(1)
				return row.first()
			}})
			_, _ = shop.pay(t.Context(), `order_id: "7"`)
			<-shop.fails //nolint:errcheck // it is what first returned
			var trailer metadata.MD
			_, err := shop.pay(t.Context(), row.request, grpc.Trailer(&trailer))
			row.want.check(t, err, trailer)
			assert.ErrorIs(t, <-shop.fails, row.want.is)
			assert.EqualValues(t, 1, calls.Load())
		})
	}
}

func TestOnce_InProgressIsSaidSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun, end := make(chan struct{}), make(chan struct{})
	handler := &service{pay: func(ctx context.Context, req any) (any, error) {
		close(begun)
		<-end
		return keyOf(ctx, req)
	}}
	shop := newShop(t, b.Guard, paysOnce(), handler)
	waits := newShop(t, b.Guard, guardgrpc.Methods{pay: pays(guard.Wait(time.Millisecond)).Once(time.Hour).SharedAnswer()}, handler)
	first := make(chan error, 1)
	go func() {
		_, err := shop.pay(t.Context(), `order_id: "7"`)
		first <- err
	}()
	<-begun
	for _, s := range []interface {
		pay(context.Context, string, ...grpc.CallOption) (string, error)
	}{shop, waits} {
		var trailer metadata.MD
		_, err := s.pay(t.Context(), `order_id: "7"`, grpc.Trailer(&trailer))
		want{codes.Aborted, "IDEMPOTENCY_IN_PROGRESS", "later", nil}.check(t, err, trailer)
	}
	close(end)
	assert.NoError(t, <-first)
}

// A response is read again as the type that generated code has.
func TestOnce_AResponseOfGeneratedCode(t *testing.T) {
	t.Parallel()
	unary := guardgrpc.Unary(newBench(t).Guard, guardgrpc.Methods{pay: guardgrpc.Lock("k").Once(time.Hour).SharedAnswer()})
	info := &grpc.UnaryServerInfo{FullMethod: pay}
	for range 2 {
		resp, err := unary(t.Context(), wrapperspb.String("7"), info, func(context.Context, any) (any, error) { return wrapperspb.Int64(42), nil })
		require.NoError(t, err)
		got, ok := resp.(*wrapperspb.Int64Value)
		if assert.True(t, ok, "%T", resp) {
			assert.EqualValues(t, 42, got.GetValue())
		}
	}
	for req, problem := range map[any]string{
		"7": "needs a request that is a protocol buffer, it is a string", wrapperspb.String("\xff"): "needs a request that can be encoded",
	} {
		_, err := unary(t.Context(), req, info, nil)
		assert.ErrorContains(t, err, problem)
		assert.Equal(t, codes.Internal, status.Code(err))
	}
}

// A response that cannot be encoded goes to the call that made it, and is not kept.
func TestOnce_AResponseThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]any{"no protocol buffer": "42", "no text": wrapperspb.String("\xff"), "none": nil} {
		unary := guardgrpc.Unary(newBench(t).Guard, guardgrpc.Methods{pay: guardgrpc.Lock("k").Once(time.Hour).SharedAnswer()})
		call := func() (any, error) {
			return unary(t.Context(), wrapperspb.String("7"), &grpc.UnaryServerInfo{FullMethod: pay}, func(context.Context, any) (any, error) { return response, nil })
		}
		resp, err := call()
		require.NoError(t, err, name)
		assert.Equal(t, response, resp, name)
		_, err = call()
		assert.ErrorIs(t, err, guard.ErrNotKept, name)
	}
}

// A record that cannot be decoded is an error.
func TestOnce_AResponseThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	input, err := proto.Marshal(wrapperspb.String("7"))
	require.NoError(t, err)
	unknown, err := proto.Marshal(&anypb.Any{TypeUrl: "type.googleapis.com/orders.v9.Gone"})
	require.NoError(t, err)
	broken, err := proto.Marshal(&anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.StringValue", Value: []byte("\xff")})
	require.NoError(t, err)
	for name, kept := range map[string][]byte{"no Any": []byte("\xff"), "of a type that is not linked in": unknown, "of another form": broken} {
		b := newBench(t)
		write := guard.Encoding(func(any) ([]byte, error) { return kept, nil }, func([]byte, any) error { return nil })
		_, _, err := guard.Once(t.Context(), b.Guard, guard.Key("k"), time.Hour, func(context.Context) (int, error) { return 0, nil },
			guard.Fingerprint([]byte(pay), input), write)
		require.NoError(t, err)
		unary := guardgrpc.Unary(b.Guard, guardgrpc.Methods{pay: guardgrpc.Lock("k").Once(time.Hour).SharedAnswer()})
		_, err = unary(t.Context(), wrapperspb.String("7"), &grpc.UnaryServerInfo{FullMethod: pay}, nil)
		assert.ErrorContains(t, err, "proto", name)
	}
}

func TestOnce_Misuse(t *testing.T) {
	t.Parallel()
	// Which methods are streams is known when the server is made.
	methods := guardgrpc.Methods{talk: guardgrpc.Lock("k").Once(time.Hour).SharedAnswer(), pay: guardgrpc.Lock("order:{order_id}").Once(time.Hour).SharedAnswer()}
	shop := newShop(t, newBench(t).Guard, methods, &service{talk: func(grpc.ServerStream) error { t.Error("ran"); return nil }})
	assert.EqualError(t, guardgrpc.Check(shop.Info, methods), `guardgrpc: row "`+talk+`": guard: Once does not go with a stream: it has no single response`)
	stream, err := shop.talk(t.Context())
	require.NoError(t, err)
	want{code: codes.Internal, reason: "OPTION_INVALID"}.check(t, stream.RecvMsg(newResponse("")), nil)
	err = guardgrpc.Stream(newBench(t).Guard, methods)(nil, contextStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: talk}, nil)
	assert.ErrorContains(t, err, "does not go with a stream")
}

// The handler of a client that left pays and is recorded: the client asks again, and gets the response.
func TestOnce_AClientThatLeftPaysOnce(t *testing.T) {
	t.Parallel()
	var payments atomic.Int32
	ctx, leave := context.WithCancel(t.Context())
	outer := make(chan context.Context, 2)
	unary := guardgrpc.Unary(newBench(t).Guard, paysOnce())
	shop := newShopWith(t, &service{pay: func(ctx context.Context, req any) (any, error) {
		<-(<-outer).Done()
		if !assert.NoError(t, ctx.Err(), "a call of the bank would be cut short") {
			return nil, ctx.Err()
		}
		payments.Add(1)
		return keyOf(ctx, req)
	}}, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		leave()
		outer <- ctx
		return unary(ctx, req, info, handler)
	}, guardgrpc.Stream(nil, nil))
	_, _ = shop.pay(ctx, `order_id: "7"`) // which may see the response at the last moment
	require.NoError(t, <-shop.fails, "the server serves it to the end")
	var header metadata.MD
	key, err := shop.pay(t.Context(), `order_id: "7"`, grpc.Header(&header))
	require.NoError(t, err)
	assert.Equal(t, "order:7", key)
	assert.True(t, replayed(header))
	assert.EqualValues(t, 1, payments.Load())
}

// Versions of a service add fields, in the middle, too. A retry that reaches another version gets the response: both
// have the same fingerprint of what the client sent.
func TestOnce_AVersionThatLacksFieldsRepeatsTheResponse(t *testing.T) {
	t.Parallel()
	const old = `
name: "old.proto" package: "old" syntax: "proto3"
message_type { name: "Order"
  field { name: "note" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL } }
message_type { name: "PayRequest"
  field { name: "order_id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "order" number: 2 type: TYPE_MESSAGE type_name: ".old.Order" label: LABEL_OPTIONAL }
  field { name: "tags" number: 5 type: TYPE_STRING label: LABEL_REPEATED } }`
	described := new(descriptorpb.FileDescriptorProto)
	require.NoError(t, prototext.Unmarshal([]byte(old), described))
	file, err := protodesc.NewFile(described, nil)
	require.NoError(t, err)
	unary := guardgrpc.Unary(newBench(t).Guard, guardgrpc.Methods{pay: guardgrpc.Lock("k").Once(time.Hour).SharedAnswer()})
	call := func(version protoreflect.MessageDescriptor, tags string) error {
		sent, err := proto.Marshal(newRequest(`order_id: "7" order { id: 9 } kind: RUSH shard: 0 raw: "x" ` + tags))
		require.NoError(t, err)
		sent = protowire.AppendString(protowire.AppendTag(sent, 2, protowire.BytesType), "\x12\x01n") // a note in the order, after the id
		req := dynamicpb.NewMessage(version)
		require.NoError(t, proto.Unmarshal(sent, req))
		_, err = unary(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: pay}, func(context.Context, any) (any, error) {
			return newResponse("once"), nil
		})
		return err
	}
	lacking := file.Messages().ByName("PayRequest")
	require.NoError(t, call(payRequest, `tags: "b" tags: "a"`))
	assert.NoError(t, call(lacking, `tags: "b" tags: "a"`))
	for _, version := range []protoreflect.MessageDescriptor{payRequest, lacking} {
		assert.ErrorIs(t, call(version, `tags: "a" tags: "b"`), guard.ErrOtherInput, "the order of a list counts")
	}
}

// Two tenants send the same request, key included: no template gives one of them the response of the other.
func TestOnce_TwoTenants(t *testing.T) {
	t.Parallel()
	for template, ok := range map[string]bool{
		"pay:{metadata:x-tenant}:{metadata:idempotency-key}": true,
		"pay:{order_id}:{metadata:idempotency-key}":          false,
	} {
		methods := guardgrpc.Methods{pay: guardgrpc.Lock(template).Once(time.Hour)}
		text := adaptertest.PanicText(func() { guardgrpc.Unary(nil, methods) })
		if assert.Equal(t, ok, text == "<nil>", text); !ok {
			assert.Contains(t, text, "the template names no caller", template)
			continue
		}
		shop := newShop(t, newBench(t).Guard, methods, &service{pay: keyOf})
		for _, tenant := range []string{"a", "b"} {
			var header metadata.MD
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", tenant, "idempotency-key", "k")
			_, err := shop.pay(ctx, `order_id: "7"`, grpc.Header(&header))
			require.NoError(t, err, template)
			assert.False(t, replayed(header), template)
		}
	}
}
