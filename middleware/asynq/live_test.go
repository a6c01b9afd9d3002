package guardasynq_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// live is a real asynq server with a queue of the test's own.
type live struct {
	queue     string
	client    *asynq.Client
	inspector *asynq.Inspector
	failed    chan error // what handlers returned
}

func start(t *testing.T, cfg asynq.Config, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) *live {
	t.Helper()
	redis := asynq.RedisClientOpt{Addr: redistest.Shared(t).Addr()}
	l := &live{
		queue:     strings.ToLower(t.Name()),
		client:    asynq.NewClient(redis),
		inspector: asynq.NewInspector(redis),
		failed:    make(chan error, 100),
	}
	cfg.Queues = map[string]int{l.queue: 1}
	cfg.LogLevel = asynq.FatalLevel
	cfg.TaskCheckInterval = 20 * time.Millisecond
	cfg.DelayedTaskCheckInterval = 100 * time.Millisecond
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { l.failed <- err })
	srv := asynq.NewServer(redis, cfg)
	mux := asynq.NewServeMux()
	mux.Use(mw)
	mux.Handle("order:charge", handler)
	require.NoError(t, srv.Start(mux))
	t.Cleanup(func() {
		srv.Shutdown()
		_ = l.client.Close()
		_ = l.inspector.Close()
	})
	return l
}

func (l *live) enqueue(t *testing.T, opts ...asynq.Option) *asynq.TaskInfo {
	t.Helper()
	opts = append([]asynq.Option{asynq.Queue(l.queue), asynq.Retention(time.Minute)}, opts...)
	info, err := l.client.Enqueue(task(), opts...)
	require.NoError(t, err)
	return info
}

// reaches waits until a task is in a state.
func (l *live) reaches(t *testing.T, id string, state asynq.TaskState) *asynq.TaskInfo {
	t.Helper()
	var info *asynq.TaskInfo
	require.Eventually(t, func() bool {
		var err error
		info, err = l.inspector.GetTaskInfo(l.queue, id)
		return err == nil && info.State == state
	}, 20*time.Second, 10*time.Millisecond, "%v", state)
	return info
}

func hold(t *testing.T, g *guard.Guard) *guard.Lease {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"), guard.Metadata("secret"))
	require.NoError(t, err)
	return lease
}

func succeed(context.Context, *asynq.Task) error { return nil }

func TestLiveBusyTaskComesBackUncounted(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	held := hold(t, g)
	mw := guardasynq.Middleware(g, guardasynq.Key("order:{order_id}"), guardasynq.With(guard.NoWait()))
	l := start(t, guardasynq.Configure(asynq.Config{}), mw, succeed)
	info := l.enqueue(t, asynq.MaxRetry(1))
	for range 2 {
		assert.ErrorIs(t, <-l.failed, guard.ErrBusy)
	}
	require.NoError(t, held.Release(t.Context()))
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
}

func TestLiveLastRunWaitsInsteadOfBeingArchived(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	waiting := &begins{begun: make(chan struct{}, 100)}
	g, err := guard.NewWithStore(store, guard.Observe(waiting), guard.StoreTimeout(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	other, err := guard.NewWithStore(store)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	held := hold(t, other)
	mw := guardasynq.Middleware(g, guardasynq.Key("order:{order_id}"), guardasynq.With(guard.NoWait()))
	l := start(t, guardasynq.Configure(asynq.Config{}), mw, succeed)
	info := l.enqueue(t, asynq.MaxRetry(0))
	<-waiting.begun
	// The store fails under the waiting task, and it tries again.
	store.Fail(errOwn)
	<-waiting.begun
	store.Fail(nil)
	_ = held.Release(t.Context())
	l.reaches(t, info.ID, asynq.TaskStateCompleted)
	assert.Empty(t, l.failed)
}

type begins struct {
	guard.NopObserver
	begun chan struct{}
}

func (b *begins) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	b.begun <- struct{}{}
	return ctx
}

func TestLiveLastRunThatStaysBusySaysSo(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	held := hold(t, g)
	defer func() { _ = held.Release(t.Context()) }()
	l := start(t, guardasynq.Configure(asynq.Config{}), guardasynq.Middleware(g, guardasynq.Key("order:{order_id}")), succeed)
	info := l.enqueue(t, asynq.MaxRetry(0), asynq.Timeout(3*time.Second))
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Contains(t, got.LastErr, `guard: lock "order:charge" is busy, waited 2.`)
	assert.NotContains(t, got.LastErr, held.Owner())
	assert.NotContains(t, got.LastErr, "secret")
}

func TestLiveBadPayloadIsArchivedAtOnce(t *testing.T) {
	t.Parallel()
	l := start(t, guardasynq.Configure(asynq.Config{}), guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.Key("order:{nope}")), succeed)
	info := l.enqueue(t, asynq.MaxRetry(25))
	got := l.reaches(t, info.ID, asynq.TaskStateArchived)
	assert.Equal(t, "guard: invalid lock key: placeholder {nope}: missing or empty: skip retry for the task", got.LastErr)
}

func TestLiveTaskPlaceholders(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	l := start(t, asynq.Config{}, guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.Key("{task:queue}:{task:id}")),
		func(ctx context.Context, _ *asynq.Task) error {
			lease, _ := guard.FromContext(ctx)
			keys <- lease.Key()
			return nil
		})
	info := l.enqueue(t)
	assert.Equal(t, l.queue+":"+info.ID, <-keys)
}

func TestLiveLockOutlivesTheTaskUntilTheHandlerReturns(t *testing.T) {
	t.Parallel()
	const ttl = time.Second // a busy machine may well sleep through a shorter one
	g := guardtest.NewGuard(t, guard.TTL(ttl))
	ctxOver, mayReturn := make(chan struct{}), make(chan struct{})
	l := start(t, guardasynq.Configure(asynq.Config{}), guardasynq.Middleware(g, guardasynq.Key("order:{order_id}")),
		func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			close(ctxOver)
			<-mayReturn
			return nil
		})
	info := l.enqueue(t, asynq.Timeout(time.Second), asynq.MaxRetry(0))
	<-ctxOver
	l.reaches(t, info.ID, asynq.TaskStateArchived)
	_, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.Wait(2*ttl))
	assert.ErrorIs(t, err, guard.ErrBusy)
	close(mayReturn)
	lease, err := g.Acquire(t.Context(), guard.Key("order:7"), guard.Wait(10*time.Second))
	require.NoError(t, err)
	assert.NoError(t, lease.Release(t.Context()))
}

func TestLiveLostLockCountsAndTheTaskRunsAgain(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	runs := 0
	cfg := asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }}
	l := start(t, guardasynq.Configure(cfg), guardasynq.Middleware(g, guardasynq.Key("order:{order_id}")),
		func(ctx context.Context, _ *asynq.Task) error {
			if runs++; runs == 1 {
				store.Drop("order:7")
				<-ctx.Done()
			}
			return nil
		})
	info := l.enqueue(t, asynq.MaxRetry(1))
	assert.ErrorIs(t, <-l.failed, guard.ErrLost)
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
}

func TestLiveHundredTasksOneAtATime(t *testing.T) {
	t.Parallel()
	const tasks = 100
	g, err := guard.New(redistest.Shared(t).Client(t), guard.StoreTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	var all sync.WaitGroup
	all.Add(tasks)
	runs := 0 // what the lock, and nothing else, protects
	l := start(t, guardasynq.Configure(asynq.Config{Concurrency: 10}),
		guardasynq.Middleware(g, guardasynq.Key("hundred:{order_id}"), guardasynq.With(guard.Wait(time.Minute))),
		func(context.Context, *asynq.Task) error {
			runs++
			all.Done()
			return nil
		})
	ids := make([]string, tasks)
	for i := range ids {
		ids[i] = l.enqueue(t).ID
	}
	all.Wait()
	assert.Equal(t, tasks, runs)
	for _, id := range ids {
		assert.Zero(t, l.reaches(t, id, asynq.TaskStateCompleted).Retried)
	}
}
