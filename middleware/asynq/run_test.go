package guardasynq_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
)

func TestRun_WaitEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		timeout, want time.Duration
		opts          []guard.LockOption
	}{
		{time.Second, 900 * time.Millisecond, []guard.LockOption{guard.Wait(time.Minute)}},
		{5 * time.Second, 4500 * time.Millisecond, []guard.LockOption{guard.Wait(time.Minute)}},
		{30 * time.Second, 29 * time.Second, []guard.LockOption{guard.Wait(time.Minute)}},
		{time.Hour, time.Minute, []guard.LockOption{guard.Wait(time.Minute)}},
		{time.Hour, time.Second, nil}, // the adapter's default
	} {
		synctest.Test(t, func(t *testing.T) {
			g := guardtest.NewMemoryGuard(t)
			defer tasktest.Hold(t, g)()
			ctx, cancel := context.WithTimeout(t.Context(), row.timeout)
			defer cancel()
			start := time.Now()
			err := process(ctx, lockOrders(g, row.opts...), never)
			var busy *guard.BusyError
			require.ErrorAs(t, err, &busy)
			assert.Equal(t, row.want, time.Since(start))
			assert.Equal(t, row.want, busy.Waited)
			assert.NoError(t, busy.Err)
			assert.Equal(t, "lock_wait_timeout", busy.ErrorType())
			assert.NotErrorIs(t, err, asynq.SkipRetry)
			assert.NoError(t, ctx.Err())
		})
	}
}

// To asynq, a dropped task was revoked: neither a failure nor a success.
func TestRun_DroppedTaskIsRevoked(t *testing.T) {
	t.Parallel()
	g := guardtest.NewMemoryGuard(t)
	defer tasktest.Hold(t, g)()
	err := process(t.Context(), guardasynq.Middleware(g, orders(guard.NoWait()).OnBusy(guardasynq.Drop)), never)
	assert.ErrorIs(t, err, asynq.RevokeTask)
	assert.ErrorIs(t, err, guard.ErrBusy)
}

func TestResultWriter_ATaskOfATestHasNone(t *testing.T) {
	t.Parallel()
	n, err := guardasynq.ResultWriter(t.Context(), task()).Write([]byte("charged"))
	assert.NoError(t, err)
	assert.Equal(t, len("charged"), n)
}

func TestRun_HandlerHasAllOfTheTimeLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		assert.ErrorIs(t, process(ctx, lockOrders(guardtest.NewMemoryGuard(t)), func(ctx context.Context, _ *asynq.Task) error {
			deadline, _ := ctx.Deadline()
			assert.Equal(t, want, deadline)
			<-ctx.Done()
			assert.False(t, time.Now().Before(want))
			return ctx.Err()
		}), context.DeadlineExceeded)
	})
}

func TestRun_StoreThatDoesNotAnswerInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, store := newStore(t, guard.StoreTimeout(time.Minute))
		store.Fail(errOwn)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := process(ctx, lockOrders(g), never)
		assert.EqualError(t, err, "guard: lock store is unavailable: acquire: no answer in the time that the task has left")
		assert.ErrorIs(t, err, guard.ErrStore)
		assert.NoError(t, ctx.Err())
	})
}

func TestRun_KeyThatTakesTooLongIsAKeyError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ guardasynq.Task) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := process(ctx, guardasynq.Middleware(guardtest.NewMemoryGuard(t), guardasynq.LockFunc(slow)), never)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.NotErrorIs(t, err, guard.ErrStore)
		assert.NoError(t, ctx.Err(), "it ended before the task's deadline")
	})
}

// tooLong delays a grant until the task has hardly any time left.
type tooLong struct{ guard.NopObserver }

func (tooLong) HoldStart(ctx context.Context, _ guard.Lock, _ guard.Hold) context.Context {
	time.Sleep(9500 * time.Millisecond)
	return ctx
}

// A task for which the lock came too late did not run. With Once, it is no success, and not of unknown outcome.
func TestRun_LockThatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, rule := range []guardasynq.Rule{orders(), orders().Once(time.Hour, guard.AtMostOnce())} {
		synctest.Test(t, func(t *testing.T) {
			slow, store := newStore(t, guard.Observe(tooLong{}))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			assert.ErrorIs(t, process(ctx, guardasynq.Middleware(slow, rule), never), guard.ErrStore)
			assert.Zero(t, store.Depth("order:7"))

			g, err := guard.NewWithStore(store)
			require.NoError(t, err)
			defer func() { _ = g.Close() }()
			assert.Same(t, errOwn, process(t.Context(), guardasynq.Middleware(g, rule), func(ctx context.Context, _ *asynq.Task) error {
				_, ok := guard.Interrupted(ctx)
				assert.False(t, ok)
				return errOwn
			}))
		})
	}
}
