package guardasynq_test

import (
	"context"
	"strings"
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

func orders(opts ...guard.LockOption) guardasynq.Rule {
	return guardasynq.Lock("order:{order_id}", opts...)
}

// hold takes the lock of task.
func hold(t *testing.T, g *guard.Guard, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"), append(opts, guard.Metadata("secret"))...)
	require.NoError(t, err)
	return lease
}

func release(t *testing.T, lease *guard.Lease) {
	t.Helper()
	assert.NoError(t, lease.Release(context.Background()))
}

func succeed(context.Context, *asynq.Task) error { return nil }

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
