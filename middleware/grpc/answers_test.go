package guardgrpc_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redlatch/redlatch/guard"
	guardgrpc "github.com/redlatch/redlatch/middleware/grpc"
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

var errOwn = status.Error(codes.FailedPrecondition, "paid already")

// answers are what befalls a call that locks order:7, and what its client gets.
var answers = map[string]struct {
	rule  *guardgrpc.Rule // nil for Lock("order:{order_id}")
	given func(t *testing.T, b bench)
	work  func(ctx context.Context, b bench) (any, error) // nil: it must not run

	code     codes.Code
	reason   string
	again    bool
	pushback string // "" for none, "later" for some
	is       error
}{
	"ok":        {work: func(ctx context.Context, _ bench) (any, error) { return keyOf(ctx, nil) }},
	"own error": {work: func(context.Context, bench) (any, error) { return nil, errOwn }, code: codes.FailedPrecondition},
	"busy": {
		rule:  new(guardgrpc.Lock("order:{order_id}", guard.NoWait())),
		given: func(t *testing.T, b bench) { b.hold(t, "order:7") },
		code:  codes.Aborted, reason: "LOCK_BUSY", again: true, pushback: "later", is: guard.ErrBusy,
	},
	"busy for longer than it waits": {
		rule:  new(guardgrpc.Lock("order:{order_id}", guard.Wait(time.Millisecond))),
		given: func(t *testing.T, b bench) { b.hold(t, "order:7") },
		code:  codes.Aborted, reason: "LOCK_BUSY", again: true, pushback: "later", is: guard.ErrBusy,
	},
	"a full limit": {
		rule: new(guardgrpc.Lock("order:{order_id}", guard.NoWait(), guard.Limit(2))),
		given: func(t *testing.T, b bench) {
			b.hold(t, "order:7", guard.Limit(2))
			b.hold(t, "order:7", guard.Limit(2))
		},
		code: codes.ResourceExhausted, reason: "LOCK_BUSY", again: true, pushback: "later", is: guard.ErrBusy,
	},
	"store down": {
		given: func(_ *testing.T, b bench) { b.store.Fail(errors.New("secret: down")) },
		code:  codes.Unavailable, reason: "LOCK_STORE_UNAVAILABLE", again: true, pushback: "later", is: guard.ErrStore,
	},
	"closed": {
		given: func(t *testing.T, b bench) { require.NoError(t, b.Close()) },
		code:  codes.Unavailable, reason: "SHUTTING_DOWN", again: true, pushback: "later", is: guard.ErrClosed,
	},
	"lost, and its context ignored": {
		work: func(_ context.Context, b bench) (any, error) {
			b.store.Drop("order:7")
			return newResponse("late"), nil
		},
		code: codes.Unknown, reason: "LOCK_LOST", pushback: "-1", is: guard.ErrLost,
	},
	"lost, and the error of its context": {
		work: func(ctx context.Context, b bench) (any, error) {
			b.store.Drop("order:7")
			<-ctx.Done()
			return nil, ctx.Err()
		},
		code: codes.Unknown, reason: "LOCK_LOST", pushback: "-1", is: guard.ErrLost,
	},
	"lost, and an error that clients repeat": {
		work: func(ctx context.Context, b bench) (any, error) {
			b.store.Drop("order:7")
			<-ctx.Done()
			return nil, status.Error(codes.Unavailable, "bank is down")
		},
		code: codes.Unknown, reason: "LOCK_LOST", pushback: "-1", is: guard.ErrLost,
	},
	"key function without a status": {
		rule: new(guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", errors.New("secret") })),
		code: codes.Internal, reason: "LOCK_KEY_INVALID", is: guard.ErrKey,
	},
	"key function with a status": {
		rule: new(guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", status.Error(codes.Unauthenticated, "sign in") })),
		code: codes.Unauthenticated, is: guard.ErrKey,
	},
	"key function with a status of success": {
		rule: new(guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", okError{} })),
		code: codes.Internal, reason: "LOCK_KEY_INVALID", is: guard.ErrKey,
	},
	"template with a field that there is not": {
		rule: new(guardgrpc.Lock("{oder_id}")), code: codes.Internal, reason: "LOCK_KEY_INVALID", is: guard.ErrKey,
	},
	"template without its metadata": {
		rule: new(guardgrpc.Lock("{metadata:x-tenant}")), code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID", is: guard.ErrKey,
	},
	"panic": {work: func(context.Context, bench) (any, error) { panic("own") }, code: codes.Internal},
	"skipped": {
		rule: new(guardgrpc.Lock("order:{order_id}").Skip(nil).Skip(func(_ context.Context, req any) bool { return req != nil })),
		work: func(ctx context.Context, b bench) (any, error) {
			_, held := guard.FromContext(ctx)
			return nil, errors.Join(errOwn, guard.WithLock(ctx, guard.Key("x"), func(context.Context) error {
				if held {
					return errors.New("held")
				}
				return nil
			}))
		},
		code: codes.FailedPrecondition,
	},
	"OnError": {
		rule:  new(guardgrpc.Lock("order:{order_id}", guard.NoWait()).OnError(func(_ context.Context, err error) error { return errors.Join(errOwn, err) })),
		given: func(t *testing.T, b bench) { b.hold(t, "order:7") },
		code:  codes.FailedPrecondition, is: guard.ErrBusy,
	},
	"OnError that makes it a success": {
		rule: new(guardgrpc.Lock("order:{order_id}").OnError(func(context.Context, error) error { return nil })),
		work: func(_ context.Context, b bench) (any, error) {
			b.store.Drop("order:7")
			return newResponse("late"), nil
		},
		code: codes.Unknown, reason: "LOCK_LOST", pushback: "-1", is: guard.ErrLost,
	},
}

type okError struct{}

func (okError) Error() string              { return "fine" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if row.given != nil {
				row.given(t, b)
			}
			if row.rule == nil {
				row.rule = new(guardgrpc.Lock("order:{order_id}"))
			}
			ran := false
			shop := newShop(t, b.Guard, guardgrpc.Methods{pay: *row.rule}, &service{pay: func(ctx context.Context, _ any) (any, error) {
				ran = true
				if row.work == nil {
					return newResponse("ran"), nil
				}
				return row.work(ctx, b)
			}})
			var trailer metadata.MD
			key, err := shop.pay(t.Context(), `order_id: "7"`, grpc.Trailer(&trailer))
			assert.Equal(t, row.work != nil, ran)
			require.Equal(t, row.code, status.Code(err), "%v", err)
			if row.code == codes.OK {
				assert.Equal(t, "order:7", key)
			}
			reason, again := detailsOf(t, err)
			assert.Equal(t, row.reason, reason)
			assert.Equal(t, row.again, again)
			assert.NotContains(t, status.Convert(err).String(), "secret")
			assertPushback(t, row.pushback, trailer)
			if seen := <-shop.fails; row.is != nil {
				assert.ErrorIs(t, seen, row.is, "interceptors around see guard's error")
			}
			if row.given == nil && !errors.Is(row.is, guard.ErrLost) {
				b.hold(t, "order:7", guard.NoWait()) // it is free
			}
		})
	}
}

func assertPushback(t *testing.T, want string, trailer metadata.MD) {
	t.Helper()
	got := trailer.Get("grpc-retry-pushback-ms")
	if want != "later" {
		assert.Equal(t, want, strings.Join(got, ","))
		return
	}
	if assert.Len(t, got, 1) {
		ms, err := strconv.Atoi(got[0])
		assert.NoError(t, err)
		assert.GreaterOrEqual(t, ms, 1000)
	}
}

// waits signals that somebody begins to wait for a lock.
type waits struct {
	guard.NopObserver
	begun chan struct{}
}

func (w *waits) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	w.begun <- struct{}{}
	return ctx
}

// The client is answered what its own context ended by, and its place in the queue is free.
func TestAnswers_CallerThatIsGoneWaitsNoLonger(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		waiting := &waits{begun: make(chan struct{}, 10)}
		b := newBench(t, guard.Wait(time.Hour), guard.Observe(waiting))
		held := b.hold(t, "order:7")
		<-waiting.begun
		shop := newShop(t, b.Guard, guardgrpc.Methods{pay: guardgrpc.Lock("order:{order_id}")}, &service{pay: keyOf})
		ctx, cancel := context.WithCancel(t.Context())
		if code == codes.DeadlineExceeded {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		} else {
			go func() { <-waiting.begun; cancel() }()
		}
		_, err := shop.pay(ctx, `order_id: "7"`)
		cancel()
		assert.Equal(t, code, status.Code(err))
		if shop.calls.Load() > 0 { // a busy machine may take longer than the deadline to send it
			// Which comes first to the server, its own clock or the client's farewell, is open.
			assert.Contains(t, []codes.Code{codes.Canceled, codes.DeadlineExceeded}, status.Code(<-shop.fails))
		}
		require.NoError(t, held.Release(t.Context()))
		_, err = shop.pay(t.Context(), `order_id: "7"`)
		assert.NoError(t, err)
	}
}

// Nobody but a caller that did not run is asked to come again.
func TestAnswers_ClientWithRetries(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"busy": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			rule := guardgrpc.Lock("order:{order_id}", guard.NoWait())
			shop := newShop(t, b.Guard, guardgrpc.Methods{pay: rule}, &service{pay: func(ctx context.Context, req any) (any, error) {
				if lost {
					b.store.Drop("order:7")
				}
				return keyOf(ctx, req)
			}}, grpc.WithDefaultServiceConfig(retries))
			if !lost {
				lease := b.hold(t, "order:7")
				go func() {
					assert.ErrorIs(t, <-shop.fails, guard.ErrBusy)
					assert.NoError(t, lease.Release(context.Background()))
				}()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			key, err := shop.pay(ctx, `order_id: "7"`)
			if lost {
				assert.Equal(t, codes.Unknown, status.Code(err), "%v", err)
				assert.EqualValues(t, 1, shop.calls.Load())
				return
			}
			assert.NoError(t, err)
			assert.Equal(t, "order:7", key)
			assert.EqualValues(t, 2, shop.calls.Load())
		})
	}
}

// A lock that is taken in code is answered alike; what is not guard's is left alone.
func TestAnswers_StatusError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold(t, "stock")
	shop := newShop(t, b.Guard, nil, &service{pay: func(ctx context.Context, _ any) (any, error) {
		work := func(context.Context) error { t.Error("ran"); return nil }
		return nil, guardgrpc.StatusError(ctx, b.WithLock(ctx, guard.Key("stock"), work, guard.NoWait()))
	}})
	var trailer metadata.MD
	_, err := shop.pay(t.Context(), "", grpc.Trailer(&trailer))
	assert.Equal(t, codes.Aborted, status.Code(err))
	assertPushback(t, "later", trailer)

	assert.NoError(t, guardgrpc.StatusError(t.Context(), nil))
	assert.Same(t, errOwn, guardgrpc.StatusError(t.Context(), errOwn))
	for code, err := range map[codes.Code]error{
		codes.Internal:         guard.ErrNoGuard,
		codes.Aborted:          &guard.BusyError{},
		codes.DeadlineExceeded: &guard.BusyError{Err: context.DeadlineExceeded},
	} {
		answer := guardgrpc.StatusError(t.Context(), err)
		assert.Equal(t, code, status.Code(answer))
		_, again := detailsOf(t, answer)
		assert.Equal(t, code == codes.Aborted, again, "a caller without time is not asked to come again")
	}
}

// Not parallel: it listens to what is logged.
func TestAnswers_FaultsAreLoggedOnce(t *testing.T) {
	b := newBench(t)
	fault := guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", errors.New("no tenant") })
	quiet := func(_ context.Context, err error) error { return err }
	refuses := guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", errOwn })
	for name, row := range map[string]struct {
		rule guardgrpc.Rule
		want int
	}{"fault": {fault, 1}, "fault with OnError": {fault.OnError(quiet), 0}, "refused with a status": {refuses, 0}} {
		shop := newShop(t, b.Guard, guardgrpc.Methods{pay: row.rule}, &service{pay: keyOf})
		logged := adaptertest.Logged(t, func() {
			for range 3 {
				_, err := shop.pay(t.Context(), "")
				assert.Error(t, err)
			}
		})
		assert.Len(t, logged, row.want, name)
	}
}
