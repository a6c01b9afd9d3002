package frameworks_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

type payResponse struct{ Key string }

// asJSON is a codec for messages that protoc did not make.
type asJSON struct{}

func (asJSON) Name() string                       { return "json" }
func (asJSON) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (asJSON) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// shop is a server of Pay, which does what work says, behind lockOrders.
type shop struct {
	store *guardtest.Store
	guard *guard.Guard
	conn  *grpc.ClientConn
}

func newShop(t *testing.T, work func(ctx context.Context, s *shop) (*payResponse, error)) *shop {
	t.Helper()
	s := &shop{store: guardtest.NewStore()}
	var err error
	s.guard, err = guard.NewWithStore(s.store, guard.TTL(guard.MinTTL), guard.StoreTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.guard.Close() })

	server := grpc.NewServer(grpc.ForceServerCodec(asJSON{}), grpc.ChainUnaryInterceptor(lockOrders(s.guard)))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "shop.Orders", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Pay", Handler: func(_ any, ctx context.Context, decode func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
			req := new(payRequest)
			if err := decode(req); err != nil {
				return nil, err
			}
			return through(ctx, req, &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Pay"}, func(ctx context.Context, _ any) (any, error) {
				return work(ctx, s)
			})
		}}},
	}, s)
	listener := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.conn, err = grpc.NewClient("passthrough:shop",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(asJSON{})))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.conn.Close())
		server.Stop()
		assert.NoError(t, <-served)
	})
	return s
}

func (s *shop) pay(ctx context.Context, order string) (key string, err error) {
	var resp payResponse
	err = s.conn.Invoke(ctx, "/shop.Orders/Pay", &payRequest{OrderID: order}, &resp)
	return resp.Key, err
}

func TestCallsOfOneOrderExcludeEachOther(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		order string
		given func(t *testing.T, s *shop)
		work  func(ctx context.Context, s *shop) (*payResponse, error)
		code  codes.Code
	}{
		"ok": {
			order: "7", code: codes.OK,
			work: func(ctx context.Context, _ *shop) (*payResponse, error) {
				lease, _ := guard.FromContext(ctx)
				return &payResponse{Key: lease.Key()}, nil
			},
		},
		"busy": {
			order: "7", code: codes.Aborted,
			given: func(t *testing.T, s *shop) {
				lease, err := s.guard.Acquire(t.Context(), guard.Key("order:7"))
				require.NoError(t, err)
				t.Cleanup(func() { _ = lease.Release(context.Background()) })
			},
		},
		"no order":   {code: codes.InvalidArgument},
		"store down": {order: "7", code: codes.Unavailable, given: func(_ *testing.T, s *shop) { s.store.Fail(errors.New("down")) }},
		"closed":     {order: "7", code: codes.Unavailable, given: func(t *testing.T, s *shop) { require.NoError(t, s.guard.Close()) }},
		"own error": {
			order: "7", code: codes.FailedPrecondition,
			work: func(context.Context, *shop) (*payResponse, error) {
				return nil, status.Error(codes.FailedPrecondition, "paid already")
			},
		},
		"lost": {
			order: "7", code: codes.Unknown,
			work: func(ctx context.Context, s *shop) (*payResponse, error) {
				s.store.Drop("order:7")
				<-ctx.Done()
				return &payResponse{Key: "late"}, nil
			},
		},
		"lost, and the handler heeds its context": {
			order: "7", code: codes.Unknown,
			work: func(ctx context.Context, s *shop) (*payResponse, error) {
				s.store.Drop("order:7")
				<-ctx.Done()
				return nil, ctx.Err()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.work == nil {
				row.work = func(context.Context, *shop) (*payResponse, error) { t.Error("ran"); return nil, nil }
			}
			s := newShop(t, row.work)
			if row.given != nil {
				row.given(t, s)
			}
			key, err := s.pay(t.Context(), row.order)
			assert.Equal(t, row.code, status.Code(err), "%v", err)
			if row.code == codes.OK {
				assert.Equal(t, "order:7", key)
			} else {
				assert.Empty(t, key)
			}
		})
	}
}

func TestCallThatIsGivenUpWaitsNoLonger(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	lease, err := g.Acquire(t.Context(), guard.Key("order:7"))
	require.NoError(t, err)
	defer func() { _ = lease.Release(context.Background()) }()
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for code, ctx := range map[codes.Code]context.Context{codes.DeadlineExceeded: late, codes.Canceled: gone} {
		_, err := lockOrders(g)(ctx, &payRequest{OrderID: "7"}, &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Pay"}, func(context.Context, any) (any, error) {
			t.Error("ran")
			return nil, nil
		})
		assert.Equal(t, code, status.Code(err))
	}
}

func TestStatusOfALock(t *testing.T) {
	t.Parallel()
	for code, err := range map[codes.Code]error{
		codes.Canceled:         &guard.BusyError{Err: context.Canceled},
		codes.DeadlineExceeded: &guard.BusyError{Err: context.DeadlineExceeded},
		codes.Unavailable:      &guard.StoreError{Err: context.DeadlineExceeded},
		codes.Unknown:          &guard.LostError{Cause: &guard.StoreError{}},
		codes.Internal:         guard.ErrNoGuard,
	} {
		assert.Equal(t, code, status.Code(lockStatus(err)), "%v", err)
	}
}

func TestCallOfNoOrderIsNotLocked(t *testing.T) {
	t.Parallel()
	resp, err := lockOrders(guardtest.NewGuard(t))(t.Context(), "no order", &grpc.UnaryServerInfo{}, func(ctx context.Context, req any) (any, error) {
		_, held := guard.FromContext(ctx)
		assert.False(t, held)
		return req, nil
	})
	assert.NoError(t, err)
	assert.Equal(t, "no order", resp)
}
