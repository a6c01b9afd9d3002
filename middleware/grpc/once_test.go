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

// once is rule, whose calls run once.
func once(rule guardgrpc.Rule, opts ...guard.OnceOption) guardgrpc.Rule {
	return rule.Once(time.Hour, opts...).SharedAnswer()
}

func TestOnce_ACallThatComesAgainGetsTheFirstResponse(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	shop := newShop(t, adaptertest.NewBench(t).Guard, guardgrpc.Methods{pay: once(pays())}, &service{pay: func(ctx context.Context, req any) (any, error) {
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
		assert.Equal(t, i > 0, strings.Join(header.Get("idempotent-replayed"), ",") == "true")
	}
	assert.EqualValues(t, 2, calls.Load())
}

// A retry that cannot get the first response is refused, and told not to retry again, unless the first call still runs.
func TestOnce_RetryThatCannotGetTheResponseIsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rule    guardgrpc.Rule
		first   func() (any, error) // nil: it still runs
		request string
		want    want
	}{
		"in progress": {
			once(pays(guard.NoWait())), nil, `order_id: "7"`,
			want{codes.Aborted, "IDEMPOTENCY_IN_PROGRESS", "later", guard.ErrBusy},
		},
		"another request": {
			once(pays()), func() (any, error) { return newResponse("7"), nil }, `order_id: "7" shard: 2`,
			want{codes.InvalidArgument, "IDEMPOTENCY_KEY_REUSED", "", guard.ErrOtherInput},
		},
		"crashed, at most once": {
			once(pays(), guard.AtMostOnce()), func() (any, error) { panic("own") }, `order_id: "7"`,
			want{codes.FailedPrecondition, "IDEMPOTENCY_OUTCOME_UNKNOWN", "-1", guard.ErrUnknownOutcome},
		},
		"too large": {
			once(pays(), guard.MaxResult(100)), func() (any, error) { return newResponse(strings.Repeat("x", 100)), nil }, `order_id: "7"`,
			want{codes.FailedPrecondition, "IDEMPOTENCY_RESULT_NOT_KEPT", "-1", guard.ErrNotKept},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, calls := adaptertest.NewBench(t), 0
			shop := newShop(t, b.Guard, guardgrpc.Methods{pay: row.rule}, &service{pay: func(context.Context, any) (any, error) {
				calls++
				return row.first()
			}})
			if row.first == nil {
				b.Hold(t, "order:7")
				calls++
			} else {
				_, _ = shop.pay(t.Context(), `order_id: "7"`)
				<-shop.fails //nolint:errcheck // it is what first returned
			}
			var trailer metadata.MD
			_, err := shop.pay(t.Context(), row.request, grpc.Trailer(&trailer))
			row.want.check(t, err, trailer)
			assert.ErrorIs(t, <-shop.fails, row.want.is)
			assert.Equal(t, 1, calls)
		})
	}
}

// A response is read again as the type that generated code has.
func TestOnce_AResponseOfGeneratedCode(t *testing.T) {
	t.Parallel()
	call := direct(adaptertest.NewBench(t).Guard, once(guardgrpc.Lock("k")))
	for range 2 {
		resp, err := call(t.Context(), wrapperspb.String("7"), returns(wrapperspb.Int64(42)))
		require.NoError(t, err)
		got, ok := resp.(*wrapperspb.Int64Value)
		require.True(t, ok, "%T", resp)
		assert.EqualValues(t, 42, got.GetValue())
	}
	for req, problem := range map[any]string{
		"7": "needs a request that is a protocol buffer, it is a string", wrapperspb.String("\xff"): "needs a request that can be encoded",
	} {
		_, err := call(t.Context(), req, nil)
		assert.ErrorContains(t, err, problem)
		assert.Equal(t, codes.Internal, status.Code(err))
	}
}

// A response that cannot be encoded goes to the call that made it, and is not kept.
func TestOnce_AResponseThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]any{"no protocol buffer": "42", "no text": wrapperspb.String("\xff"), "none": nil} {
		call := direct(adaptertest.NewBench(t).Guard, once(guardgrpc.Lock("k")))
		resp, err := call(t.Context(), wrapperspb.String("7"), returns(response))
		require.NoError(t, err, name)
		assert.Equal(t, response, resp, name)
		_, err = call(t.Context(), wrapperspb.String("7"), nil)
		assert.ErrorIs(t, err, guard.ErrNotKept, name)
	}
}

// A record that cannot be decoded is an error.
func TestOnce_AResponseThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	encode := func(m proto.Message) []byte {
		encoded, err := proto.Marshal(m)
		require.NoError(t, err)
		return encoded
	}
	input := encode(wrapperspb.String("7"))
	for name, kept := range map[string][]byte{
		"no Any":                       []byte("\xff"),
		"of a type that is not linked": encode(&anypb.Any{TypeUrl: "type.googleapis.com/orders.v9.Gone"}),
		"of another form":              encode(&anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.StringValue", Value: []byte("\xff")}),
	} {
		b := adaptertest.NewBench(t)
		write := guard.Encoding(func(any) ([]byte, error) { return kept, nil }, func([]byte, any) error { return nil })
		_, _, err := guard.Once(t.Context(), b.Guard, guard.Key("k"), time.Hour, func(context.Context) (int, error) { return 0, nil },
			guard.Fingerprint([]byte(pay), input), write)
		require.NoError(t, err)
		_, err = direct(b.Guard, once(guardgrpc.Lock("k")))(t.Context(), wrapperspb.String("7"), nil)
		assert.ErrorContains(t, err, "proto", name)
	}
}

// Which methods are streams is known when the server is made.
func TestOnce_StreamIsRefused(t *testing.T) {
	t.Parallel()
	methods := guardgrpc.Methods{talk: once(guardgrpc.Lock("k")), pay: once(pays())}
	shop := newShop(t, adaptertest.NewBench(t).Guard, methods, &service{talk: func(grpc.ServerStream) error { t.Error("ran"); return nil }})
	assert.EqualError(t, guardgrpc.Check(shop.Info, methods), `guardgrpc: row "`+talk+`": guard: Once does not go with a stream: it has no single response`)
	stream, err := shop.talk(t.Context())
	require.NoError(t, err)
	want{code: codes.Internal, reason: "OPTION_INVALID"}.check(t, stream.RecvMsg(newResponse("")), nil)
}

// The handler of a client that left pays and is recorded: the client asks again, and gets the response.
func TestOnce_AClientThatLeftPaysOnce(t *testing.T) {
	t.Parallel()
	call, payments := direct(adaptertest.NewBench(t).Guard, once(pays())), 0
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		_, err := call(ctx, newRequest(`order_id: "7"`), func(ctx context.Context, req any) (any, error) {
			leave()
			assert.NoError(t, ctx.Err(), "a call of the bank would be cut short")
			payments++
			return keyOf(ctx, req)
		})
		require.NoError(t, err)
	}
	assert.Equal(t, 1, payments)
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
	unary := direct(adaptertest.NewBench(t).Guard, once(guardgrpc.Lock("k")))
	call := func(version protoreflect.MessageDescriptor, tags string) error {
		sent, err := proto.Marshal(newRequest(`order_id: "7" order { id: 9 } kind: RUSH shard: 0 raw: "x" ` + tags))
		require.NoError(t, err)
		sent = protowire.AppendString(protowire.AppendTag(sent, 2, protowire.BytesType), "\x12\x01n") // a note in the order, after the id
		req := dynamicpb.NewMessage(version)
		require.NoError(t, proto.Unmarshal(sent, req))
		_, err = unary(t.Context(), req, returns(newResponse("once")))
		return err
	}
	lacking := file.Messages().ByName("PayRequest")
	require.NoError(t, call(payRequest, `tags: "b" tags: "a"`))
	assert.NoError(t, call(lacking, `tags: "b" tags: "a"`))
	for _, version := range []protoreflect.MessageDescriptor{payRequest, lacking} {
		assert.ErrorIs(t, call(version, `tags: "a" tags: "b"`), guard.ErrOtherInput, "the order of a list counts")
	}
}
