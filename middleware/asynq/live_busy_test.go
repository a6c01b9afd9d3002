package guardasynq_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

func TestLiveBusyTaskComesBackUncounted(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	l := start(t, asynq.Config{}, lockOrders(g, guardasynq.With(guard.NoWait())), succeed)
	info := l.enqueue(t, asynq.MaxRetry(1))
	for range 2 {
		assert.ErrorIs(t, l.failure(t), guard.ErrBusy)
	}
	got := l.reaches(t, info.ID, asynq.TaskStateRetry)
	assert.Zero(t, got.Retried)
	assert.Equal(t, `guard: lock "order:charge" is busy`, got.LastErr)
	release(t, held)
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
}

// A task over its limit is busy as any other: it burns no retry, and runs when there is room.
func TestLiveTaskOverItsLimitComesBackUncounted(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	first, second := hold(t, g, guard.Limit(2)), hold(t, g, guard.Limit(2))
	l := start(t, asynq.Config{}, lockOrders(g, guardasynq.With(guard.NoWait(), guard.Limit(2))), succeed)
	info := l.enqueue(t, asynq.MaxRetry(1))
	for range 2 {
		var busy *guard.BusyError
		require.ErrorAs(t, l.failure(t), &busy)
		assert.Equal(t, 2, busy.Limit)
	}
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateRetry).Retried)
	release(t, first)
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
	release(t, second)
}

func TestLiveWithoutConfigureABusyLockCounts(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	l := newLive(t)
	l.serve(t, asynq.Config{}, lockOrders(g, guardasynq.With(guard.NoWait())), never)
	info := l.enqueue(t, asynq.MaxRetry(1))
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateRetry).Retried)
}

// At the task's deadline asynq stops listening and counts a failure: the wait has to be
// over before.
func TestLiveWaitBeyondTheTimeoutIsNotCounted(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	l := start(t, asynq.Config{}, lockOrders(g, guardasynq.With(guard.Wait(time.Minute))), succeed)
	info := l.enqueue(t, asynq.MaxRetry(1), asynq.Timeout(6*time.Second))
	var busy *guard.BusyError
	require.ErrorAs(t, l.failure(t), &busy)
	assert.NoError(t, busy.Err)
	release(t, held)
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
}

func TestLiveBusyTaskEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	cfg := asynq.Config{RetryDelayFunc: atOnce}
	l := start(t, cfg, lockOrders(g, guardasynq.With(guard.NoWait())), never)
	info := l.enqueue(t, asynq.MaxRetry(1), asynq.Deadline(time.Now().Add(3*time.Second)))
	assert.ErrorIs(t, l.failure(t), guard.ErrBusy)
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Equal(t, 1, got.Retried)
	assert.Equal(t, context.DeadlineExceeded.Error(), got.LastErr)
}

func TestLiveHundredTasksOneAtATime(t *testing.T) {
	t.Parallel()
	const tasks = 100
	var inside atomic.Bool
	var runs atomic.Int64
	l := start(t, asynq.Config{Concurrency: 10}, lockOrders(realGuard(t)), func(context.Context, *asynq.Task) error {
		assert.True(t, inside.CompareAndSwap(false, true), "two at a time")
		defer inside.Store(false)
		time.Sleep(5 * time.Millisecond) // the work: time for another to come in
		runs.Add(1)
		return nil
	})
	infos := make([]*asynq.TaskInfo, tasks)
	for i := range infos {
		infos[i] = l.enqueue(t)
	}
	for _, info := range infos {
		assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
	}
	assert.EqualValues(t, tasks, runs.Load())
}

func TestLiveSkipRunDropsTheTask(t *testing.T) {
	t.Parallel()
	for name, retries := range map[string]int{"with retries": 3, "without retries": 0} {
		g := realGuard(t)
		held := hold(t, g)
		mw := lockOrders(g, guardasynq.BusyStrategy(guardasynq.SkipRun), guardasynq.With(guard.NoWait()))
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

func TestLiveArchiveGivesTheTaskUp(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	mw := lockOrders(g, guardasynq.BusyStrategy(guardasynq.Archive), guardasynq.With(guard.NoWait()))
	l := start(t, asynq.Config{}, mw, never)
	info := l.enqueue(t, asynq.MaxRetry(3))
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Zero(t, got.Retried)
	assert.Equal(t, `guard: lock "order:charge" is busy: skip retry for the task`, got.LastErr)
}

// A mux of the tasks' patterns and a table of the locks' go together.
func TestLiveAnnotate(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	var once sync.Once
	mw := guardasynq.Annotate(g, guardasynq.Tasks{
		"order:":       guardasynq.Lock("order:{order_id}", guard.NoWait()),
		"order:charge": guardasynq.Lock("order:{order_id}", guard.Wait(time.Minute), guard.Name("charge")),
	}, guardasynq.OnError(func(_ context.Context, _ *asynq.Task, err error) error {
		once.Do(func() { release(t, held) })
		return err
	}))
	l := start(t, asynq.Config{}, mw, succeed)
	info := l.enqueue(t, asynq.Timeout(2*time.Second))
	assert.ErrorContains(t, l.failure(t), `guard: lock "charge" is busy, waited `)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
}
