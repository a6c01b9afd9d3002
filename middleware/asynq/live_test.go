package guardasynq_test

import (
	"context"
	"strings"
	"sync/atomic"
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

// live is a queue of the test's own on a real Redis, and the servers that work on it.
type live struct {
	queue     string
	client    *asynq.Client
	inspector *asynq.Inspector
	failed    chan error // what runs of tasks returned
}

// patience is for what should happen in seconds.
const patience = 30 * time.Second

func newLive(t *testing.T) *live {
	t.Helper()
	redis := asynq.RedisClientOpt{Addr: redistest.Shared(t).Addr()}
	l := &live{
		queue:     strings.NewReplacer(" ", "-", "'", "").Replace(strings.ToLower(t.Name())),
		client:    asynq.NewClient(redis),
		inspector: asynq.NewInspector(redis),
		failed:    make(chan error, 1000),
	}
	t.Cleanup(func() {
		_ = l.client.Close()
		_ = l.inspector.Close()
	})
	return l
}

// fast is cfg for servers that do not make a test wait.
func fast(queue string, cfg asynq.Config) asynq.Config {
	cfg.Queues = map[string]int{queue: 1}
	cfg.LogLevel = asynq.FatalLevel
	cfg.TaskCheckInterval = 20 * time.Millisecond
	cfg.DelayedTaskCheckInterval = 100 * time.Millisecond
	return cfg
}

func (l *live) serve(t *testing.T, cfg asynq.Config, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) *asynq.Server {
	t.Helper()
	own := cfg.ErrorHandler
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
		if own != nil {
			own.HandleError(ctx, task, err)
		}
		l.failed <- err
	})
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: redistest.Shared(t).Addr()}, fast(l.queue, cfg))
	mux := asynq.NewServeMux()
	mux.Use(mw)
	mux.Handle("order:charge", handler)
	require.NoError(t, srv.Start(mux))
	t.Cleanup(srv.Shutdown)
	return srv
}

// start has one server, set up by Configure, for a queue of its own.
func start(t *testing.T, cfg asynq.Config, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) *live {
	t.Helper()
	l := newLive(t)
	l.serve(t, guardasynq.Configure(cfg), mw, handler)
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
	}, patience, 10*time.Millisecond, "%v", state)
	return info
}

// failure waits for a run that failed.
func (l *live) failure(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.failed:
		return err
	case <-time.After(patience):
		t.Fatal("no run fails")
		return nil
	}
}

// realGuard returns a Guard on the same Redis as the tasks. Those of one test see each
// other's locks.
func realGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	opts = append([]guard.Option{guard.Prefix(strings.ToLower(t.Name()))}, opts...)
	g, err := guard.New(redistest.Shared(t).Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// lockOrders is the middleware that most tests are about.
func lockOrders(g *guard.Guard, opts ...guard.LockOption) asynq.MiddlewareFunc {
	return guardasynq.Middleware(g, orders(opts...))
}

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

func TestLive_Placeholders(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 1)
	mw := guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.Lock("{header:tenant}:{task:type}:{task:queue}:{task:id}"))
	l := start(t, asynq.Config{}, mw, func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := guard.FromContext(ctx)
		keys <- lease.Key()
		return nil
	})
	headed := asynq.NewTaskWithHeaders("order:charge", nil, map[string]string{"tenant": "acme"})
	info, err := l.client.Enqueue(headed, asynq.Queue(l.queue))
	require.NoError(t, err)
	assert.Equal(t, "acme:order%3Acharge:"+l.queue+":"+info.ID, <-keys)
}

func TestLiveBusy_LiveSkipRunDropsTheTask(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	held := hold(t, g)
	defer release(t, held)
	mw := guardasynq.Middleware(g, orders(guard.NoWait()).BusyStrategy(guardasynq.SkipRun))
	l := newLive(t)
	srv := l.serve(t, guardasynq.Configure(asynq.Config{}), mw, never)
	info := l.enqueue(t, asynq.MaxRetry(3), asynq.Unique(time.Hour))
	err := l.failure(t)
	assert.ErrorIs(t, err, guard.ErrBusy)
	assert.ErrorIs(t, err, asynq.RevokeTask)
	require.Eventually(t, func() bool {
		_, err := l.inspector.GetTaskInfo(l.queue, info.ID)
		return err != nil
	}, patience, 10*time.Millisecond)
	srv.Shutdown()
	// A dropped task does not count as a duplicate of the next.
	again := l.enqueue(t, asynq.Unique(time.Hour))
	require.NoError(t, l.inspector.DeleteTask(l.queue, again.ID))
}

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

// stubborn is a handler whose first run ignores the end of its context.
type stubborn struct {
	t         *testing.T
	inside    atomic.Bool
	runs      atomic.Int64
	over      chan struct{} // closed when the first run's context is over
	mayReturn chan struct{}
}

func newStubborn(t *testing.T) *stubborn {
	return &stubborn{t: t, over: make(chan struct{}), mayReturn: make(chan struct{})}
}

func (s *stubborn) handle(ctx context.Context, _ *asynq.Task) error {
	assert.True(s.t, s.inside.CompareAndSwap(false, true), "two runs at a time")
	defer s.inside.Store(false)
	if s.runs.Add(1) == 1 {
		<-ctx.Done()
		close(s.over)
		<-s.mayReturn
	}
	return nil
}

// busyFor waits until runs of the task were refused for longer than the ttl: somebody
// renews the lock.
func (l *live) busyFor(t *testing.T, ttl time.Duration) {
	t.Helper()
	require.ErrorIs(t, l.failure(t), guard.ErrBusy)
	for first := time.Now(); time.Since(first) <= ttl; {
		require.ErrorIs(t, l.failure(t), guard.ErrBusy)
	}
}

// shortTTL is one that tests can wait for. A busy machine may well sleep through a
// shorter one.
const shortTTL = time.Second

func TestLiveRunning_LiveRunAfterATimeoutIsNeverBesideTheFirst(t *testing.T) {
	t.Parallel()
	g, s := realGuard(t, guard.TTL(shortTTL)), newStubborn(t)
	l := start(t, asynq.Config{RetryDelayFunc: atOnce}, lockOrders(g, guard.NoWait()), s.handle)
	info := l.enqueue(t, asynq.Timeout(time.Second), asynq.MaxRetry(3))
	<-s.over
	assert.ErrorIs(t, l.failure(t), context.DeadlineExceeded)
	l.busyFor(t, shortTTL)
	close(s.mayReturn)
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried, "the timeout")
}
