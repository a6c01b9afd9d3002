package guardgrpc_test

import (
	"context"
	"errors"
	"strconv"
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
	"github.com/redlatch/redlatch/middleware/internal/adaptertest"
)

var errOwn = status.Error(codes.FailedPrecondition, "paid already")

// answer is what the client of a call gets.
type answer struct {
	code     codes.Code
	reason   string
	again    bool
	pushback string // "" for none, "later" for some
	is       error
}

var (
	busyAnswer = answer{codes.Aborted, "LOCK_BUSY", true, "later", guard.ErrBusy}
	fullAnswer = answer{codes.ResourceExhausted, "LOCK_BUSY", true, "later", guard.ErrBusy}
	lostAnswer = answer{codes.Unknown, "LOCK_LOST", false, "-1", guard.ErrLost}
	ownAnswer  = answer{code: codes.FailedPrecondition}
	keyAnswer  = answer{codes.Internal, "LOCK_KEY_INVALID", false, "", guard.ErrKey}
)

// losing is work whose lock is lost; it ends with its context, or ignores that.
func losing(ignores bool, resp any, err func(context.Context) error) func(context.Context, bench) (any, error) {
	return func(ctx context.Context, b bench) (any, error) {
		b.store.Drop("order:7")
		if !ignores {
			<-ctx.Done()
		}
		return resp, err(ctx)
	}
}

func keyFunc(err error) guardgrpc.Rule {
	return guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", err })
}

// answers are what befalls a call that locks order:7, and what its client gets.
var answers = map[string]struct {
	rule  *guardgrpc.Rule // nil for Lock("order:{order_id}")
	given func(t *testing.T, b bench)
	work  func(ctx context.Context, b bench) (any, error) // nil: it must not run
	answer
}{
	"ok":        {work: func(ctx context.Context, _ bench) (any, error) { return keyOf(ctx, nil) }},
	"own error": {work: func(context.Context, bench) (any, error) { return nil, errOwn }, answer: ownAnswer},
	"panic":     {work: func(context.Context, bench) (any, error) { panic("own") }, answer: answer{code: codes.Internal}},
	"busy": {
		rule: new(guardgrpc.Lock("order:{order_id}", guard.NoWait())), given: func(t *testing.T, b bench) { b.hold(t, "order:7") }, answer: busyAnswer,
	},
	"busy for longer than it waits": {
		rule: new(guardgrpc.Lock("order:{order_id}", guard.Wait(time.Millisecond))), given: func(t *testing.T, b bench) { b.hold(t, "order:7") }, answer: busyAnswer,
	},
	"a full limit": {
		rule: new(guardgrpc.Lock("order:{order_id}", guard.NoWait(), guard.Limit(2))),
		given: func(t *testing.T, b bench) {
			b.hold(t, "order:7", guard.Limit(2))
			b.hold(t, "order:7", guard.Limit(2))
		},
		answer: fullAnswer,
	},
	"store down": {
		given:  func(_ *testing.T, b bench) { b.store.Fail(errors.New("secret: down")) },
		answer: answer{codes.Unavailable, "LOCK_STORE_UNAVAILABLE", true, "later", guard.ErrStore},
	},
	"closed": {
		given:  func(t *testing.T, b bench) { require.NoError(t, b.Close()) },
		answer: answer{codes.Unavailable, "SHUTTING_DOWN", true, "later", guard.ErrClosed},
	},
	"lost, and its context ignored":      {work: losing(true, newResponse("late"), func(context.Context) error { return nil }), answer: lostAnswer},
	"lost, and the error of its context": {work: losing(false, nil, context.Context.Err), answer: lostAnswer},
	"lost, and an error that clients repeat": {
		work: losing(false, nil, func(context.Context) error { return status.Error(codes.Unavailable, "bank is down") }), answer: lostAnswer,
	},
	"key function without a status":         {rule: new(keyFunc(errors.New("secret"))), answer: keyAnswer},
	"key function with a status of success": {rule: new(keyFunc(okError{})), answer: keyAnswer},
	"key function with a status": {
		rule: new(keyFunc(status.Error(codes.Unauthenticated, "sign in"))), answer: answer{code: codes.Unauthenticated, is: guard.ErrKey},
	},
	"template with a field that there is not": {rule: new(guardgrpc.Lock("{oder_id}")), answer: keyAnswer},
	"template without its metadata": {
		rule: new(guardgrpc.Lock("{metadata:x-tenant}")), answer: answer{code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID", is: guard.ErrKey},
	},
	"skipped": {
		rule: new(guardgrpc.Lock("order:{order_id}").Skip(nil).Skip(func(_ context.Context, req any) bool { return req != nil })),
		work: func(ctx context.Context, b bench) (any, error) {
			if _, held := guard.FromContext(ctx); held {
				return nil, errors.New("held")
			}
			return nil, errors.Join(errOwn, guard.WithLock(ctx, guard.Key("x"), func(context.Context) error { return nil }))
		},
		answer: ownAnswer,
	},
	"OnError": {
		rule:   new(guardgrpc.Lock("order:{order_id}", guard.NoWait()).OnError(func(_ context.Context, err error) error { return errors.Join(errOwn, err) })),
		given:  func(t *testing.T, b bench) { b.hold(t, "order:7") },
		answer: answer{code: codes.FailedPrecondition, is: guard.ErrBusy},
	},
	"OnError that makes it a success": {
		rule: new(guardgrpc.Lock("order:{order_id}").OnError(func(context.Context, error) error { return nil })),
		work: losing(true, newResponse("late"), func(context.Context) error { return nil }), answer: lostAnswer,
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
