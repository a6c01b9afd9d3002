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
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redlatch/redlatch/guard"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
)

func paysOnce(opts ...guard.OnceOption) guardgrpc.Methods {
	return guardgrpc.Methods{pay: guardgrpc.Lock("order:{order_id}", guard.NoWait()).Once(time.Hour, opts...)}
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

// What a call with Once gets that gets no response, and that nobody repeats in vain.
func TestOnce_Answers(t *testing.T) {
	t.Parallel()
	large := newResponse(strings.Repeat("x", 100))
	for name, row := range map[string]struct {
		opts     []guard.OnceOption
		first    func() (any, error)
		request  string
		code     codes.Code
		reason   string
		pushback string
		is       error
	}{
		"another request": {
			first: func() (any, error) { return newResponse("7"), nil }, request: `order_id: "7" shard: 2`,
			code: codes.InvalidArgument, reason: "IDEMPOTENCY_KEY_REUSED", is: guard.ErrOtherInput,
		},
		"crashed, at most once": {
			opts: []guard.OnceOption{guard.AtMostOnce()}, first: func() (any, error) { panic("own") }, request: `order_id: "7"`,
			code: codes.FailedPrecondition, reason: "IDEMPOTENCY_OUTCOME_UNKNOWN", pushback: "-1", is: guard.ErrUnknownOutcome,
		},
		"too large": {
			opts: []guard.OnceOption{guard.MaxResult(100)}, first: func() (any, error) { return large, nil }, request: `order_id: "7"`,
			code: codes.FailedPrecondition, reason: "IDEMPOTENCY_RESULT_NOT_KEPT", pushback: "-1", is: guard.ErrNotKept,
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
			assert.Equal(t, row.code, status.Code(err), "%v", err)
			reason, again := detailsOf(t, err)
			assert.Equal(t, row.reason, reason)
			assert.False(t, again)
			assertPushback(t, row.pushback, trailer)
			assert.ErrorIs(t, <-shop.fails, row.is)
			assert.EqualValues(t, 1, calls.Load())
		})
	}
}

func TestOnce_InProgressIsSaidSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	begun, end := make(chan struct{}), make(chan struct{})
	shop := newShop(t, b.Guard, paysOnce(), &service{pay: func(ctx context.Context, req any) (any, error) {
		close(begun)
		<-end
		return keyOf(ctx, req)
	}})
	first := make(chan error, 1)
	go func() {
		_, err := shop.pay(t.Context(), `order_id: "7"`)
		first <- err
	}()
	<-begun
	var trailer metadata.MD
	_, err := shop.pay(t.Context(), `order_id: "7"`, grpc.Trailer(&trailer))
	assert.Equal(t, codes.Aborted, status.Code(err))
	reason, again := detailsOf(t, err)
	assert.Equal(t, "IDEMPOTENCY_IN_PROGRESS", reason)
	assert.True(t, again)
	assertPushback(t, "later", trailer)
	close(end)
	assert.NoError(t, <-first)
}

// A response is read again as the type that generated code has.
func TestOnce_AResponseOfGeneratedCode(t *testing.T) {
	t.Parallel()
	unary := guardgrpc.Unary(newBench(t).Guard, guardgrpc.Methods{pay: guardgrpc.Lock("k").Once(time.Hour)})
	info := &grpc.UnaryServerInfo{FullMethod: pay}
	for range 2 {
		resp, err := unary(t.Context(), wrapperspb.String("7"), info, func(context.Context, any) (any, error) { return wrapperspb.Int64(42), nil })
		require.NoError(t, err)
		got, ok := resp.(*wrapperspb.Int64Value)
		if assert.True(t, ok, "%T", resp) {
			assert.EqualValues(t, 42, got.GetValue())
		}
	}
	_, err := unary(t.Context(), "7", info, nil)
	assert.ErrorContains(t, err, "needs a request that is a protocol buffer, it is a string")
	assert.Equal(t, codes.Internal, status.Code(err))
}

func TestOnce_Misuse(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardgrpc.Rule{
		"guard: keep 0s is outside 1ms to 8784h0m0s":                                    guardgrpc.Lock("k").Once(0),
		"Once needs one key, And adds others":                                           guardgrpc.Lock("k").Once(time.Hour).And("stock"),
		"guard: Shared does not go with Once: one call runs, the others get its result": guardgrpc.Lock("k", guard.Shared()).Once(time.Hour),
	} {
		assert.PanicsWithValue(t, `guardgrpc: row "`+pay+`": `+want, func() { guardgrpc.Unary(nil, guardgrpc.Methods{pay: rule}) })
	}

	// Which methods are streams is known when the server is made.
	methods := guardgrpc.Methods{talk: guardgrpc.Lock("k").Once(time.Hour), pay: guardgrpc.Lock("order:{order_id}").Once(time.Hour)}
	shop := newShop(t, newBench(t).Guard, methods, &service{talk: func(grpc.ServerStream) error { t.Error("ran"); return nil }})
	assert.EqualError(t, guardgrpc.Check(shop.Info, methods), `guardgrpc: row "`+talk+`": guard: Once does not go with a stream: it has no single response`)
	stream, err := shop.talk(t.Context())
	require.NoError(t, err)
	err = stream.RecvMsg(newResponse(""))
	assert.Equal(t, codes.Internal, status.Code(err))
	reason, _ := detailsOf(t, err)
	assert.Equal(t, "OPTION_INVALID", reason)
}
