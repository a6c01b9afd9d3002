package guardgrpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

var errOnceStream = &guard.OptionError{Option: "Once", Reason: "does not go with a stream: it has no single response"}

var deterministic = proto.MarshalOptions{Deterministic: true}

// runOnce is Run for a rule with Once. It sets resp to the response of an earlier call, unless work sets it.
func (m *method) runOnce(ctx context.Context, src call, resp *any, work func(context.Context) error) (own, err error) {
	if resp == nil {
		return nil, errOnceStream
	}
	req, ok := src.req.(proto.Message)
	if !ok {
		return nil, &guard.OptionError{Option: "Once", Reason: fmt.Sprintf("needs a request that is a protocol buffer, it is a %T", src.req)}
	}
	input, err := deterministic.Marshal(req)
	if err != nil {
		return nil, &guard.OptionError{Option: "Once", Reason: "needs a request that can be encoded: " + err.Error()}
	}
	answered, replayed, own, err := locking.RunOnce(ctx, m.Locker, m.name, src, func(ctx context.Context) (any, error) {
		err := work(ctx)
		return *resp, err
	}, guard.Detached(), guard.Fingerprint([]byte(m.name), inOrder(input, req.ProtoReflect().Descriptor())), guard.Encoding(encode, decode))
	if replayed {
		*resp = answered
		// It fails if ctx is not the context of a call, as in a test.
		_ = grpc.SetHeader(ctx, metadata.Pairs("idempotent-replayed", "true"))
	}
	return own, err
}

// encode writes a response with the name of its type.
func encode(resp any) ([]byte, error) {
	message, ok := resp.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("guardgrpc: the response is no protocol buffer, it is a %T", resp)
	}
	var named anypb.Any
	if err := anypb.MarshalFrom(&named, message, deterministic); err != nil {
		return nil, err
	}
	return deterministic.Marshal(&named)
}

// decode reads what encode wrote into an any.
func decode(kept []byte, resp any) error {
	var named anypb.Any
	if err := proto.Unmarshal(kept, &named); err != nil {
		return err
	}
	message, err := named.UnmarshalNew()
	if errors.Is(err, protoregistry.NotFound) { // the response was made without generated code
		types := dynamicpb.NewTypes(protoregistry.GlobalFiles)
		message, err = anypb.UnmarshalNew(&named, proto.UnmarshalOptions{Resolver: types})
	}
	if err != nil {
		return err
	}
	*resp.(*any) = message
	return nil
}
