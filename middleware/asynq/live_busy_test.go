package guardasynq_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

func TestLiveBusy_LiveWithoutConfigureABusyLockCounts(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	l := newLive(t)
	l.serve(t, asynq.Config{}, lockOrders(g, guard.NoWait()), never)
	info := l.enqueue(t, asynq.MaxRetry(1))
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateRetry).Retried)
}

// At the task's deadline asynq stops listening and counts a failure: the wait has to be
// over before.
func TestLiveBusy_LiveWaitBeyondTheTimeoutIsNotCounted(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	l := start(t, asynq.Config{}, lockOrders(g, guard.Wait(time.Minute)), succeed)
	info := l.enqueue(t, asynq.MaxRetry(1), asynq.Timeout(6*time.Second))
	var busy *guard.BusyError
	require.ErrorAs(t, l.failure(t), &busy)
	assert.NoError(t, busy.Err)
	release(t, held)
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
}

func TestLiveBusy_TaskEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	cfg := asynq.Config{RetryDelayFunc: atOnce}
	l := start(t, cfg, lockOrders(g, guard.NoWait()), never)
	info := l.enqueue(t, asynq.MaxRetry(1), asynq.Deadline(time.Now().Add(3*time.Second)))
	assert.ErrorIs(t, l.failure(t), guard.ErrBusy)
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Equal(t, 1, got.Retried)
	assert.Equal(t, context.DeadlineExceeded.Error(), got.LastErr)
}

func TestLiveBusy_LiveSkipRunDropsTheTask(t *testing.T) {
	t.Parallel()
	for name, retries := range map[string]int{"with retries": 3, "without retries": 0} {
		g := realGuard(t)
		held := hold(t, g)
		mw := guardasynq.Middleware(g, orders(guard.NoWait()).BusyStrategy(guardasynq.SkipRun))
		l := newLive(t)
		srv := l.serve(t, guardasynq.Configure(asynq.Config{}), mw, never)
		info := l.enqueue(t, asynq.MaxRetry(retries), asynq.Unique(time.Hour))
		err := l.failure(t)
		assert.ErrorIs(t, err, guard.ErrBusy, name)
		assert.ErrorIs(t, err, asynq.RevokeTask, name)
		require.Eventually(t, func() bool {
			_, err := l.inspector.GetTaskInfo(l.queue, info.ID)
			return err != nil
		}, patience, 10*time.Millisecond, name)
		srv.Shutdown()
		// What is dropped is no duplicate of what comes next.
		again := l.enqueue(t, asynq.Unique(time.Hour))
		require.NoError(t, l.inspector.DeleteTask(l.queue, again.ID))
		release(t, held)
	}
}

func TestLiveBusy_LiveArchiveGivesTheTaskUp(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	mw := guardasynq.Middleware(g, orders(guard.NoWait()).BusyStrategy(guardasynq.Archive))
	l := start(t, asynq.Config{}, mw, never)
	info := l.enqueue(t, asynq.MaxRetry(3))
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Zero(t, got.Retried)
	assert.Equal(t, `guard: lock "order:charge" is busy: skip retry for the task`, got.LastErr)
}

// A mux of the tasks' patterns and a table of the locks' go together.
func TestLiveBusy_LiveAnnotate(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	var once sync.Once
	free := func(_ context.Context, _ *asynq.Task, err error) error {
		once.Do(func() { release(t, held) })
		return err
	}
	mw := guardasynq.Annotate(g, guardasynq.Tasks{
		"order:":       orders(guard.NoWait()),
		"order:charge": orders(guard.Wait(time.Minute), guard.Name("charge")).OnError(free),
	})
	l := start(t, asynq.Config{}, mw, succeed)
	info := l.enqueue(t, asynq.Timeout(2*time.Second))
	assert.ErrorContains(t, l.failure(t), `guard: lock "charge" is busy, waited `)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
}
