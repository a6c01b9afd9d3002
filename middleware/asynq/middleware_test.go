package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
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

func TestMiddleware_BusyAfterASecond(t *testing.T) {
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

func TestMiddleware_MisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardasynq.Rule{
		"guardasynq: no KeyFunc":                   guardasynq.LockFunc(nil),
		"guardasynq: guard: Wait -1ns is negative": orders(guard.Wait(-1)),
	} {
		assert.PanicsWithValue(t, want, func() { guardasynq.Middleware(nil, rule) })
	}
	assert.PanicsWithValue(t, "guardasynq: no KeyFunc", func() { guardasynq.Middleware(nil, guardasynq.Rule{}.And("a")) })
	assert.NotPanics(t, func() { guardasynq.Middleware(nil, orders(nil).Skip(nil).OnError(nil)) })
}

func TestMiddleware_OneSkipIsEnough(t *testing.T) {
	t.Parallel()
	mw := guardasynq.Middleware(guardtest.NewGuard(t), orders().
		Skip(func(context.Context, *asynq.Task) bool { return false }).
		Skip(func(_ context.Context, t *asynq.Task) bool { return t.Type() == "order:charge" }))
	assert.NoError(t, process(t.Context(), mw, func(ctx context.Context, _ *asynq.Task) error {
		_, ok := guard.FromContext(ctx)
		assert.False(t, ok)
		return nil
	}))
}

// A key function of one's own says by itself what will never have a key.
func TestMiddleware_KeyFunctionsErrorIsNotTheTasksFault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		stay bool
	}{{errOwn, false}, {fmt.Errorf("bad: %w", asynq.SkipRetry), true}} {
		own := func(context.Context, *asynq.Task) (string, error) { return "", row.err }
		err := process(t.Context(), guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.LockFunc(own)), never)
		assert.ErrorIs(t, err, row.err)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.Equal(t, row.stay, errors.Is(err, asynq.SkipRetry))
	}
}

// What the handler returns is what asynq gets, whatever became of the lock.
func TestMiddleware_TheHandlersErrorComesBackAlsoWhenItsLockWasLost(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	assert.Same(t, errOwn, process(t.Context(), lockOrders(g), func(ctx context.Context, _ *asynq.Task) error {
		store.Drop("order:7")
		<-ctx.Done()
		return errOwn
	}))
}

func TestMiddleware_OnErrorDecides(t *testing.T) {
	t.Parallel()
	var got []error
	mw := guardasynq.Middleware(nil, orders().OnError(func(_ context.Context, task *asynq.Task, err error) error {
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
