package guardgrpc_test

import (
	"context"
	"errors"
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
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
)

var errOwn = status.Error(codes.FailedPrecondition, "paid already")

// want is what a client gets.
type want struct {
	code     codes.Code
	reason   string
	pushback string // "" for none, "later" for some
	is       error  // what interceptors around see
}

var (
	isBusy   = want{codes.Aborted, "LOCK_BUSY", "later", guard.ErrBusy}
	isDown   = want{codes.Unavailable, "LOCK_STORE_UNAVAILABLE", "later", guard.ErrStore}
	isClosed = want{codes.Unavailable, "SHUTTING_DOWN", "later", guard.ErrClosed}
	isLost   = want{codes.Unknown, "LOCK_LOST", "-1", guard.ErrLost}
	isFault  = want{codes.Internal, "LOCK_KEY_INVALID", "", guard.ErrKey}
	isOwn    = want{code: codes.FailedPrecondition}
)

// check compares what a client got.
func (w want) check(t *testing.T, err error, trailer metadata.MD) {
	t.Helper()
	require.Equal(t, w.code, status.Code(err), "%v", err)
	reason, again := detailsOf(t, err)
	assert.Equal(t, w.reason, reason)
	assert.Equal(t, w.pushback == "later", again)
	assert.NotContains(t, status.Convert(err).String(), "secret")
	pushback := trailer.Get("grpc-retry-pushback-ms")
	if w.pushback != "later" {
		assert.Equal(t, w.pushback, strings.Join(pushback, ","))
	} else if assert.Len(t, pushback, 1) {
		assert.Regexp(t, `^[1-9][0-9]{3,}$`, pushback[0])
	}
}

func pays(opts ...guard.LockOption) guardgrpc.Rule {
	return guardgrpc.Lock("order:{order_id}", opts...)
}

// keyed has a key function that fails.
func keyed(err error) guardgrpc.Rule {
	return guardgrpc.LockFunc(func(context.Context, any) (string, error) { return "", err })
}

func held(t *testing.T, b bench) { b.Hold(t, "order:7") }

// lose is a handler that loses its lock and returns an error, or a response.
func lose(err error) func(context.Context, bench) (any, error) {
	return func(ctx context.Context, b bench) (any, error) {
		b.Store.Drop("order:7")
		if err == nil {
			return newResponse("late"), nil // its context ignored
		}
		<-ctx.Done()
		return nil, err
	}
}

// answers are what befalls a call that locks order:7, and what its client gets.
var answers = map[string]struct {
	rule  guardgrpc.Rule
	given func(t *testing.T, b bench)
	work  func(ctx context.Context, b bench) (any, error) // nil: it must not run
	want  want
}{
	"ok":        {pays(), nil, func(ctx context.Context, _ bench) (any, error) { return keyOf(ctx, nil) }, want{}},
	"own error": {pays(), nil, func(context.Context, bench) (any, error) { return nil, errOwn }, isOwn},
	"panic":     {pays(), nil, func(context.Context, bench) (any, error) { panic("own") }, want{code: codes.Internal}},

	"busy":       {pays(guard.NoWait()), held, nil, isBusy},
	"store down": {pays(), func(_ *testing.T, b bench) { b.Store.Fail(errors.New("secret: down")) }, nil, isDown},
	"closed":     {pays(), func(t *testing.T, b bench) { require.NoError(t, b.Close()) }, nil, isClosed},

	"lost, and its context ignored":          {pays(), nil, lose(nil), isLost},
	"lost, and an error that clients repeat": {pays(), nil, lose(status.Error(codes.Unavailable, "bank is down")), isLost},

	"key function without a status":         {keyed(errors.New("secret")), nil, nil, isFault},
	"key function with a status":            {keyed(status.Error(codes.Unauthenticated, "sign in")), nil, nil, want{code: codes.Unauthenticated, is: guard.ErrKey}},
	"key function with a status of success": {keyed(okError{}), nil, nil, isFault},

	"skipped": {pays().Unlocked(nil).Unlocked(func(_ context.Context, req any) bool { return req != nil }), nil, func(ctx context.Context, _ bench) (any, error) {
		if _, held := guard.FromContext(ctx); held {
			return nil, errors.New("held")
		}
		if err := guard.WithLock(ctx, guard.Key("x"), func(context.Context) error { return nil }); err != nil {
			return nil, err
		}
		return nil, errOwn
	}, isOwn},
	"OnError": {
		pays(guard.NoWait()).OnError(func(_ context.Context, err error) error { return errors.Join(errOwn, err) }), held, nil,
		want{code: codes.FailedPrecondition, is: guard.ErrBusy},
	},
	"OnError that makes it a success": {pays().OnError(func(context.Context, error) error { return nil }), nil, lose(nil), isLost},
}

type okError struct{}

func (okError) Error() string              { return "fine" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

func TestAnswers_StatusOfEachError(t *testing.T) {
	t.Parallel()
	for name, row := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := adaptertest.NewBench(t)
			if row.given != nil {
				row.given(t, b)
			}
			ran := false
			shop := newShop(t, b.Guard, guardgrpc.Methods{pay: row.rule}, &service{pay: func(ctx context.Context, _ any) (any, error) {
				ran = true
				if row.work == nil {
					return newResponse("ran"), nil
				}
				return row.work(ctx, b)
			}})
			var trailer metadata.MD
			key, err := shop.pay(t.Context(), `order_id: "7"`, grpc.Trailer(&trailer))
			assert.Equal(t, row.work != nil, ran)
			row.want.check(t, err, trailer)
			if row.want.code == codes.OK {
				assert.Equal(t, "order:7", key)
			}
			if seen := <-shop.fails; row.want.is != nil {
				assert.ErrorIs(t, seen, row.want.is)
			}
			if row.given == nil && row.want != isLost {
				b.Hold(t, "order:7", guard.NoWait()) // it is free
			}
		})
	}
}

// The client that leaves is answered, and its place in the queue is free.
func TestAnswers_CallerThatIsGoneWaitsNoLonger(t *testing.T) {
	t.Parallel()
	waiting := tasktest.NewWaits()
	b := adaptertest.NewBench(t, guard.Wait(time.Hour), guard.Observe(waiting))
	held := b.Hold(t, "order:7")
	<-waiting.Begun
	shop := newShop(t, b.Guard, guardgrpc.Methods{pay: pays()}, &service{pay: keyOf})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waiting.Begun; cancel() }()
	_, err := shop.pay(ctx, `order_id: "7"`)
	assert.Equal(t, codes.Canceled, status.Code(err))
	gone := status.Convert(<-shop.fails)
	assert.Equal(t, codes.Canceled, gone.Code())
	assert.Empty(t, gone.Details(), "nothing failed")
	require.NoError(t, held.Release(t.Context()))
	_, err = shop.pay(t.Context(), `order_id: "7"`)
	assert.NoError(t, err)
}

// Only a call that did not run may be retried.
func TestAnswers_OnlyACallThatDidNotRunIsRetried(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"busy": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := adaptertest.NewBench(t)
			rule := pays(guard.NoWait())
			shop := newShop(t, b.Guard, guardgrpc.Methods{pay: rule}, &service{pay: func(ctx context.Context, req any) (any, error) {
				if lost {
					b.Store.Drop("order:7")
				}
				return keyOf(ctx, req)
			}}, grpc.WithDefaultServiceConfig(retries))
			if !lost {
				lease := b.Hold(t, "order:7")
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

// StatusError answers a lock that is taken in code like the interceptors; other errors are left alone.
func TestStatusError_AnswersLikeTheInterceptors(t *testing.T) {
	t.Parallel()
	b := adaptertest.NewBench(t)
	b.Hold(t, "stock")
	shop := newShop(t, b.Guard, nil, &service{pay: func(ctx context.Context, _ any) (any, error) {
		work := func(context.Context) error { t.Error("ran"); return nil }
		return nil, guardgrpc.StatusError(ctx, b.WithLock(ctx, guard.Key("stock"), work, guard.NoWait()))
	}})
	var trailer metadata.MD
	_, err := shop.pay(t.Context(), "", grpc.Trailer(&trailer))
	isBusy.check(t, err, trailer)

	assert.NoError(t, guardgrpc.StatusError(t.Context(), nil))
	assert.Same(t, errOwn, guardgrpc.StatusError(t.Context(), errOwn))
	_, again := detailsOf(t, guardgrpc.StatusError(t.Context(), &guard.BusyError{Err: context.DeadlineExceeded}))
	assert.False(t, again, "a caller without time is not asked to come again")
}

// The reason of a status is the error.type in capitals, and the guide has each with its code.
func TestAnswers_ReasonIsTheErrorType(t *testing.T) {
	t.Parallel()
	adaptertest.ErrorNames(t, "../../docs/reference/errors.md", 3, func(err error) (name, code string) {
		answer := guardgrpc.StatusError(t.Context(), err)
		reason, _ := detailsOf(t, answer)
		assert.Equal(t, strings.ToUpper(reason), reason)
		return strings.ToLower(reason), status.Code(answer).String()
	})
}

// Not parallel: it replaces slog's default logger.
func TestAnswers_FaultsAreLoggedOnce(t *testing.T) {
	fault := keyed(errors.New("no tenant"))
	quiet := func(_ context.Context, err error) error { return err }
	for name, row := range map[string]struct {
		rule guardgrpc.Rule
		want int
	}{"fault": {fault, 1}, "fault with OnError": {fault.OnError(quiet), 0}, "refused with a status": {keyed(errOwn), 0}} {
		call := direct(adaptertest.NewBench(t).Guard, row.rule)
		logged := adaptertest.Logged(t, func() {
			for range 3 {
				_, err := call(t.Context(), newRequest(""), nil)
				assert.Error(t, err)
			}
		})
		assert.Len(t, logged, row.want, name)
	}
}
