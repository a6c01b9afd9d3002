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
	g, err := guard.NewWithStore(store, guard.Observe(waiting), guard.StoreTimeout(50*time.Millisecond))
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
	info := l.enqueue(t, asynq.MaxRetry(0), asynq.Timeout(2*time.Second))
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
