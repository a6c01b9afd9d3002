package guardasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// begins tells when somebody begins to wait for a lock.
type begins struct {
	guard.NopObserver
	begun chan struct{}
}

func newBegins() *begins { return &begins{begun: make(chan struct{}, 100)} }

func (b *begins) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	b.begun <- struct{}{}
	return ctx
}

func TestLiveLastRun_LiveTaskWithoutRetriesWaits(t *testing.T) {
	t.Parallel()
	held, waiting := hold(t, realGuard(t)), newBegins()
	mw := lockOrders(realGuard(t, guard.Observe(waiting)), guard.NoWait())
	l := start(t, asynq.Config{}, mw, succeed)
	info := l.enqueue(t, asynq.MaxRetry(0))
	<-waiting.begun
	release(t, held)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
	assert.Empty(t, l.failed)
}

// The last run of a task that had retries.
func TestLiveLastRun_LiveLastRetryWaits(t *testing.T) {
	t.Parallel()
	g, waiting := realGuard(t), newBegins()
	held := make(chan *guard.Lease, 1)
	cfg := asynq.Config{
		RetryDelayFunc: atOnce,
		// The lock is busy before asynq has put the task aside.
		ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { held <- hold(t, g) }),
	}
	runs := 0
	mw := lockOrders(realGuard(t, guard.Observe(waiting)), guard.NoWait())
	l := start(t, cfg, mw, func(context.Context, *asynq.Task) error {
		if runs++; runs == 1 {
			return errOwn
		}
		return nil
	})
	info := l.enqueue(t, asynq.MaxRetry(1))
	<-waiting.begun
	assert.Same(t, errOwn, l.failure(t))
	<-waiting.begun
	release(t, <-held)
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
	assert.Empty(t, l.failed)
	assert.Empty(t, waiting.begun, "it waits in one go, and keeps its place")
}

func TestLiveLastRun_OutlastsAnOutage(t *testing.T) {
	t.Parallel()
	store, waiting := guardtest.NewStore(), newBegins()
	g, err := guard.NewWithStore(store, guard.Observe(waiting), guard.StoreTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	// No strategy takes an outage for a busy lock.
	mw := guardasynq.Middleware(g, orders().BusyStrategy(guardasynq.Archive))
	store.Fail(errOwn)
	l := start(t, asynq.Config{}, mw, succeed)
	info := l.enqueue(t, asynq.MaxRetry(0))
	for range 2 {
		<-waiting.begun
	}
	store.Fail(nil)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
	assert.Empty(t, l.failed)
}

func TestLiveLastRun_ThatStaysBusySaysSo(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	l := start(t, asynq.Config{}, lockOrders(g), never)
	info := l.enqueue(t, asynq.MaxRetry(0), asynq.Timeout(6*time.Second))
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Contains(t, got.LastErr, `guard: lock "order:charge" is busy, waited `)
	for _, private := range []string{"order:7", "secret", held.Owner()} {
		assert.NotContains(t, got.LastErr, private)
	}
}

func TestLiveLastRun_LiveShutdownPutsAWaitingTaskBack(t *testing.T) {
	t.Parallel()
	g, waiting := realGuard(t), newBegins()
	held := hold(t, g)
	l := newLive(t)
	cfg := guardasynq.Configure(asynq.Config{ShutdownTimeout: 100 * time.Millisecond})
	srv := l.serve(t, cfg, lockOrders(realGuard(t, guard.Observe(waiting))), never)
	info := l.enqueue(t, asynq.MaxRetry(0))
	<-waiting.begun
	srv.Shutdown()
	l.reaches(t, info.ID, asynq.TaskStatePending)
	release(t, held)
	l.serve(t, cfg, lockOrders(g), succeed)
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
	assert.Empty(t, l.failed)
}

// Whoever cancels a task wants it to end, not to be forgotten.
func TestLiveLastRun_LiveCancelledWaitIsNotDropped(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	mw := guardasynq.Middleware(g, orders(guard.Wait(guard.Forever)).BusyStrategy(guardasynq.SkipRun))
	l := start(t, asynq.Config{}, mw, never)
	info := l.enqueue(t, asynq.MaxRetry(1))
	l.reaches(t, info.ID, asynq.TaskStateActive)
	require.Eventually(t, func() bool {
		// A server may not listen yet.
		return l.inspector.CancelProcessing(info.ID) == nil && len(l.failed) > 0
	}, patience, 10*time.Millisecond)
	assert.ErrorIs(t, l.failure(t), context.Canceled)
	l.reaches(t, info.ID, asynq.TaskStateRetry)
}
