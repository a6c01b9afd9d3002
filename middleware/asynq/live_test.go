package guardasynq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
)

// A handler may still run when asynq has stopped waiting for it.
func TestLive_RunAfterATimeoutIsNeverBesideTheFirst(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second // a shorter one may lapse on a busy machine
	var inside, again atomic.Bool
	ended, mayReturn := make(chan struct{}), make(chan struct{})
	l := newLive(t)
	l.serve(t, asynq.Config{RetryDelayFunc: atOnce}, lockOrders(realGuard(t, guard.TTL(ttl)), guard.NoWait()), func(ctx context.Context, _ *asynq.Task) error {
		assert.True(t, inside.CompareAndSwap(false, true), "two runs at a time")
		defer inside.Store(false)
		if again.CompareAndSwap(false, true) {
			<-ctx.Done()
			close(ended)
			<-mayReturn
		}
		return nil
	})
	info := l.enqueue(t, task(), asynq.Timeout(time.Second), asynq.MaxRetry(3))
	<-ended
	assert.ErrorIs(t, l.failure(t), context.DeadlineExceeded)
	for first := time.Now(); time.Since(first) <= ttl; { // the lock is renewed
		require.ErrorIs(t, l.failure(t), guard.ErrBusy)
	}
	close(mayReturn)
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried, "the timeout")
}

func TestLive_LastRetryWaits(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]guardasynq.Rule{"lock": orders(guard.NoWait()), "once": orders(guard.NoWait()).Once(time.Millisecond)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, waiting, l := realGuard(t), tasktest.NewWaits(), newLive(t)
			release := make(chan func(), 1)
			cfg := asynq.Config{
				RetryDelayFunc: atOnce,
				// The lock is busy before asynq has put the task aside.
				ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { release <- tasktest.Hold(t, g) }),
			}
			runs := 0
			l.serve(t, cfg, guardasynq.Middleware(realGuard(t, guard.Observe(waiting)), rule), func(context.Context, *asynq.Task) error {
				if runs++; runs == 1 {
					return errOwn
				}
				return nil
			})
			info := l.enqueue(t, task(), asynq.MaxRetry(1))
			<-waiting.Begun
			assert.Same(t, errOwn, l.failure(t))
			<-waiting.Begun
			(<-release)()
			assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
			assert.Empty(t, l.failed)
			assert.Empty(t, waiting.Begun, "it waits in one go, and keeps its place")
		})
	}
}

func TestLive_LastRunOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	waiting, l := tasktest.NewWaits(), newLive(t)
	g, store := newStore(t, guard.Observe(waiting), guard.StoreTimeout(50*time.Millisecond))
	store.Fail(errOwn)
	// An outage is not a busy lock for any strategy.
	l.serve(t, asynq.Config{}, guardasynq.Middleware(g, orders().OnBusy(guardasynq.GiveUp)), succeed)
	info := l.enqueue(t, task(), asynq.MaxRetry(0))
	for range 2 {
		<-waiting.Begun
	}
	store.Fail(nil)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
	assert.Empty(t, l.failed)
}

func TestLive_LastRunThatStaysBusySaysSo(t *testing.T) {
	t.Parallel()
	g, l := realGuard(t), newLive(t)
	defer tasktest.Hold(t, g)()
	l.serve(t, asynq.Config{}, lockOrders(g), never)
	info := l.enqueue(t, task(), asynq.MaxRetry(0), asynq.Timeout(2*time.Second))
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Regexp(t, `^guard: lock "order:charge" is busy, waited [0-9.]+s$`, got.LastErr)
}

// The strategy for a busy lock applies to the last run, too.
func TestLive_LastRunOfAnotherStrategyDoesNotWait(t *testing.T) {
	t.Parallel()
	g, l := realGuard(t), newLive(t)
	defer tasktest.Hold(t, g)()
	l.serve(t, asynq.Config{}, guardasynq.Middleware(g, orders(guard.NoWait()).OnBusy(guardasynq.GiveUp)), never)
	info := l.enqueue(t, task(), asynq.MaxRetry(0), asynq.Timeout(time.Hour))
	l.reaches(t, info.ID, asynq.TaskStateArchived)
}

func TestLive_ShutdownPutsAWaitingTaskBack(t *testing.T) {
	t.Parallel()
	g, waiting, l := realGuard(t), tasktest.NewWaits(), newLive(t)
	release := tasktest.Hold(t, g)
	cfg := asynq.Config{ShutdownTimeout: 100 * time.Millisecond}
	srv := l.serve(t, cfg, lockOrders(realGuard(t, guard.Observe(waiting))), never)
	info := l.enqueue(t, task(), asynq.MaxRetry(0))
	<-waiting.Begun
	srv.Shutdown()
	l.reaches(t, info.ID, asynq.TaskStatePending)
	release()
	l.serve(t, cfg, lockOrders(g), succeed)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
	assert.Empty(t, l.failed)
}

// A task that is acknowledged without its handler has the result of the task that ran.
func TestLive_OnceGivesTheFirstResultAgain(t *testing.T) {
	t.Parallel()
	g, l := realGuard(t), newLive(t)
	t.Cleanup(func() { _, _ = g.Forget(context.Background(), guard.Key("order:7")) })
	var runs atomic.Int64
	l.serve(t, asynq.Config{}, guardasynq.Middleware(g, orders().Once(time.Hour)), func(ctx context.Context, task *asynq.Task) error {
		runs.Add(1)
		for _, state := range []string{"asked the bank", "charged"} {
			if _, err := guardasynq.ResultWriter(ctx, task).Write([]byte(state)); err != nil {
				return err
			}
		}
		_, err := guardasynq.ResultWriter(ctx, asynq.NewTask("order:report", nil)).Write([]byte("another task's"))
		return err
	})
	for range 3 {
		info := l.enqueue(t, task())
		assert.Equal(t, "charged", string(l.reaches(t, info.ID, asynq.TaskStateCompleted).Result))
	}
	assert.EqualValues(t, 1, runs.Load())
	assert.Empty(t, l.failed)
}

func TestLive_ResultAfterTheDeadlineIsAnError(t *testing.T) {
	t.Parallel()
	g, l := realGuard(t), newLive(t)
	t.Cleanup(func() { _, _ = g.Forget(context.Background(), guard.Key("order:7")) })
	results := make(chan error, 1)
	l.serve(t, asynq.Config{}, guardasynq.Middleware(g, orders().Once(time.Hour)), func(ctx context.Context, task *asynq.Task) error {
		<-ctx.Done()
		n, err := guardasynq.ResultWriter(ctx, task).Write([]byte("late"))
		assert.Zero(t, n)
		results <- err
		return err
	})
	l.enqueue(t, task(), asynq.Timeout(time.Second), asynq.MaxRetry(0))
	require.Error(t, <-results)
}
