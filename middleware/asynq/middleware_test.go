package guardasynq_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

var errOwn = errors.New("own")

func task() *asynq.Task { return asynq.NewTask("order:charge", []byte(`{"order_id":7}`)) }

// process runs a task through the middleware as asynq's mux does.
func process(ctx context.Context, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) error {
	mux := asynq.NewServeMux()
	mux.Use(mw)
	mux.Handle("order:", handler)
	return mux.ProcessTask(ctx, task())
}

func never(context.Context, *asynq.Task) error { panic("ran") }

func TestMisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	key := guardasynq.Key("{order_id}")
	assert.PanicsWithValue(t, "guardasynq: no KeyFunc", func() { guardasynq.Middleware(nil, nil) })
	assert.Panics(t, func() { guardasynq.Middleware(nil, key, guardasynq.With(guard.Wait(-1))) })
	assert.NotPanics(t, func() {
		guardasynq.Middleware(nil, key, nil, guardasynq.Skip(nil), guardasynq.OnError(nil), guardasynq.With(nil))
	})
}

func TestHandlerHoldsTheLockAndMayTakeMore(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewGuard(t, guard.Observe(recorder))
	err := process(t.Context(), lockOrders(g), func(ctx context.Context, _ *asynq.Task) error {
		_, ok := guard.Held(ctx, "order:7")
		assert.True(t, ok)
		assert.NoError(t, guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil }))
		return errOwn
	})
	assert.Same(t, errOwn, err)
	assert.Equal(t, "order:charge", recorder.Observations("WaitStart")[0].Lock.Name)
}

func TestSkippedTasksRunWithoutALock(t *testing.T) {
	t.Parallel()
	mw := lockOrders(guardtest.NewGuard(t),
		guardasynq.Skip(func(context.Context, *asynq.Task) bool { return false }),
		guardasynq.Skip(func(_ context.Context, t *asynq.Task) bool { return t.Type() == "order:charge" }))
	assert.NoError(t, process(t.Context(), mw, func(ctx context.Context, _ *asynq.Task) error {
		_, ok := guard.FromContext(ctx)
		assert.False(t, ok)
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}))
}

func TestBusyAfterASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t)
		held, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.Metadata("secret"))
		require.NoError(t, err)
		defer func() { _ = held.Release(t.Context()) }()
		start := time.Now()
		err = process(t.Context(), lockOrders(g), never)
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.NotErrorIs(t, err, asynq.SkipRetry)
		assert.InDelta(t, time.Second, time.Since(start), float64(10*time.Millisecond))
		// Asynq stores the text, and shows it to everybody.
		for _, private := range []string{"order:7", "secret", held.Owner()} {
			assert.NotContains(t, err.Error(), private)
		}
	})
}

func TestBadPayloadIsArchived(t *testing.T) {
	t.Parallel()
	err := process(t.Context(), guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.Key("order:{id}")), never)
	assert.ErrorIs(t, err, asynq.SkipRetry)
	assert.ErrorIs(t, err, guard.ErrKey)

	own := func(context.Context, *asynq.Task) (string, error) { return "", errOwn }
	err = process(t.Context(), guardasynq.Middleware(guardtest.NewGuard(t), own), never)
	assert.ErrorIs(t, err, errOwn)
	assert.ErrorIs(t, err, guard.ErrKey)
	assert.NotErrorIs(t, err, asynq.SkipRetry)
}

func TestNoGuardAndClosedGuard(t *testing.T) {
	t.Parallel()
	key := guardasynq.Key("order:{order_id}")
	assert.ErrorIs(t, process(t.Context(), guardasynq.Middleware(nil, key), never), guard.ErrNoGuard)
	assert.ErrorIs(t, process(t.Context(), guardasynq.Middleware(&guard.Guard{}, key), never), guard.ErrNoGuard)
	g := guardtest.NewGuard(t)
	ctx := guard.WithGuard(t.Context(), g)
	assert.NoError(t, process(ctx, guardasynq.Middleware(nil, key), func(context.Context, *asynq.Task) error { return nil }))
	require.NoError(t, g.Close())
	assert.ErrorIs(t, process(t.Context(), guardasynq.Middleware(g, key), never), guard.ErrClosed)
}

func TestLostUnderAHandler(t *testing.T) {
	t.Parallel()
	for _, own := range []error{nil, errOwn} {
		store := guardtest.NewStore()
		g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
		require.NoError(t, err)
		err = process(t.Context(), lockOrders(g), func(ctx context.Context, _ *asynq.Task) error {
			store.Drop("order:7")
			<-ctx.Done()
			return own
		})
		if own == nil {
			assert.ErrorIs(t, err, guard.ErrLost)
		} else {
			assert.Same(t, own, err)
		}
		require.NoError(t, g.Close())
	}
}

func TestOnErrorDecides(t *testing.T) {
	t.Parallel()
	var got []error
	mw := guardasynq.Middleware(nil, guardasynq.Key("order:{order_id}"), guardasynq.OnError(
		func(_ context.Context, task *asynq.Task, err error) error {
			assert.Equal(t, "order:charge", task.Type())
			got = append(got, err)
			return nil
		}))
	assert.NoError(t, process(t.Context(), mw, never))
	ctx := guard.WithGuard(t.Context(), guardtest.NewGuard(t))
	assert.ErrorIs(t, process(ctx, mw, func(context.Context, *asynq.Task) error { return errOwn }), errOwn)
	if assert.Len(t, got, 1, "only for guard's errors") {
		assert.ErrorIs(t, got[0], guard.ErrNoGuard)
	}
}

func TestPanicsPass(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	mw := lockOrders(g)
	assert.PanicsWithError(t, "own", func() {
		_ = process(t.Context(), mw, func(context.Context, *asynq.Task) error { panic(errOwn) })
	})
	lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.NoWait())
	require.NoError(t, err)
	assert.NoError(t, lease.Release(t.Context()))
}
