package guardgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/redlatch/redlatch/guard"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

func TestLive_StreamHoldsItsLock(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	methods := guardgrpc.Methods{talk: guardgrpc.Lock("tenant:{metadata:x-tenant}", guard.NoWait()).Unlocked(func(_ context.Context, req any) bool { return req != nil })}
	shop := newShop(t, b.Guard, methods, &service{talk: func(ss grpc.ServerStream) error {
		for {
			err := ss.RecvMsg(dynamicpb.NewMessage(payRequest))
			if errors.Is(err, io.EOF) {
				return nil
			}
			assert.NoError(t, err)
			resp, _ := keyOf(ss.Context(), nil)
			assert.NoError(t, ss.SendMsg(resp))
		}
	}})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", "acme")
	first, err := shop.talk(ctx)
	require.NoError(t, err)
	assert.Equal(t, "tenant:acme", say(t, first))

	var trailer metadata.MD
	second, err := shop.talk(ctx, grpc.Trailer(&trailer))
	require.NoError(t, err)
	err = second.RecvMsg(dynamicpb.NewMessage(payResponse))
	isBusy.check(t, err, trailer)

	require.NoError(t, first.CloseSend())
	assert.ErrorIs(t, first.RecvMsg(dynamicpb.NewMessage(payResponse)), io.EOF)
	b.Hold(t, "tenant:acme", guard.NoWait())
}

// say sends a request, and gives the key that the answer names.
func say(t *testing.T, stream grpc.ClientStream) string {
	t.Helper()
	require.NoError(t, stream.SendMsg(newRequest("")))
	resp := dynamicpb.NewMessage(payResponse)
	require.NoError(t, stream.RecvMsg(resp))
	return resp.Get(payResponse.Fields().ByName("paid_under")).String()
}

// The messages before a loss are sent, nothing is sent after it, and the status says that it was lost.
func TestLive_StreamSendsNothingAfterALoss(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	shop := newShop(t, b.Guard, guardgrpc.Methods{talk: guardgrpc.Lock("all")}, &service{talk: func(ss grpc.ServerStream) error {
		assert.NoError(t, ss.SendMsg(newResponse("in time")))
		b.Store.Drop("all")
		<-ss.Context().Done()
		assert.ErrorIs(t, ss.SendMsg(newResponse("late")), guard.ErrLost)
		assert.ErrorIs(t, ss.RecvMsg(dynamicpb.NewMessage(payRequest)), guard.ErrLost)
		return nil
	}})
	var trailer metadata.MD
	stream, err := shop.talk(t.Context(), grpc.Trailer(&trailer))
	require.NoError(t, err)
	assert.Equal(t, "in time", say(t, stream))
	err = stream.RecvMsg(dynamicpb.NewMessage(payResponse))
	isLost.check(t, err, trailer)
}

// The client leaves while the handler runs: its context ends, and its lock is free.
func TestLive_StreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	shop := newShop(t, b.Guard, guardgrpc.Methods{talk: guardgrpc.Lock("all")}, &service{talk: func(ss grpc.ServerStream) error {
		close(begun)
		<-ss.Context().Done()
		ended <- context.Cause(ss.Context())
		_, own := status.FromError(ss.SendMsg(newResponse("late")))
		assert.True(t, own, "the stream says itself what it ended by")
		return ss.Context().Err()
	}})
	ctx, leave := context.WithCancel(t.Context())
	_, err := shop.talk(ctx)
	require.NoError(t, err)
	<-begun
	leave()
	assert.ErrorIs(t, <-ended, context.Canceled)
	b.Hold(t, "all", guard.Wait(time.Minute))
}

// Methods without a row pass untouched, and a stream gets the error of its handler.
func TestLive_MethodsWithoutARowPassUntouched(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	free := func(ctx context.Context) error {
		if _, held := guard.FromContext(ctx); held {
			return errors.New("held")
		}
		return errOwn
	}
	for _, methods := range []guardgrpc.Methods{nil, {talk: guardgrpc.Lock("all").Unlocked(func(context.Context, any) bool { return true })}} {
		shop := newShop(t, b.Guard, methods, &service{
			pay:  func(ctx context.Context, _ any) (any, error) { return nil, free(ctx) },
			talk: func(ss grpc.ServerStream) error { return free(ss.Context()) },
		})
		_, err := shop.pay(t.Context(), "")
		assert.Equal(t, codes.FailedPrecondition, status.Code(err))
		stream, err := shop.talk(t.Context())
		require.NoError(t, err)
		assert.Equal(t, codes.FailedPrecondition, status.Code(stream.RecvMsg(dynamicpb.NewMessage(payResponse))))
	}
}
