package guardasynq_test

import (
	"context"
	"errors"
	"os"
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
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
)

func TestMain(m *testing.M) {
	os.Exit(tasktest.Main(m, func(m *testing.M) int { return redistest.Run(m, "asynq:") }))
}

func TestTasks(t *testing.T) {
	t.Parallel()
	tasktest.Suite(t, func(t *testing.T) tasktest.Queue { return newLive(t) })
}

// patience bounds a wait for an event within seconds.
const patience = 30 * time.Second

var errOwn = errors.New("own")

func task() *asynq.Task { return asynq.NewTask("order:charge", []byte(`{"order_id":7}`)) }

func orders(opts ...guard.LockOption) guardasynq.Rule {
	return guardasynq.Lock("order:{order_id}", opts...)
}

// lockOrders is the middleware of most tests.
func lockOrders(g *guard.Guard, opts ...guard.LockOption) asynq.MiddlewareFunc {
	return guardasynq.Middleware(g, orders(opts...))
}

func succeed(context.Context, *asynq.Task) error { return nil }

func never(context.Context, *asynq.Task) error { panic("ran") }

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

// process runs a task through the middleware as asynq's mux does.
func process(ctx context.Context, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) error {
	mux := asynq.NewServeMux()
	mux.Use(mw)
	mux.Handle("order:", handler)
	return mux.ProcessTask(ctx, task())
}

// newStore makes a Guard on a store that the test can break.
func newStore(t *testing.T, opts ...guard.Option) (*guard.Guard, *guardtest.Store) {
	t.Helper()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g, store
}

// realGuard returns a Guard on the Redis of the tasks. The Guards of one test share their locks.
func realGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	opts = append([]guard.Option{guard.Prefix(strings.ToLower(t.Name()))}, opts...)
	g, err := guard.New(redistest.Shared(t).Client(t), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// live is a queue on a real Redis, and its servers.
type live struct {
	queue     string
	client    *asynq.Client
	inspector *asynq.Inspector
	failed    chan error // errors of runs
}

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

func (l *live) serve(t *testing.T, cfg asynq.Config, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) *asynq.Server {
	t.Helper()
	own := cfg.ErrorHandler
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
		if own != nil {
			own.HandleError(ctx, task, err)
		}
		l.failed <- err
	})
	cfg.Queues = map[string]int{l.queue: 1}
	cfg.LogLevel = asynq.FatalLevel
	cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval = 20*time.Millisecond, 100*time.Millisecond
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: redistest.Shared(t).Addr()}, guardasynq.Configure(cfg))
	mux := asynq.NewServeMux()
	mux.Use(mw)
	mux.Handle("order:charge", handler)
	require.NoError(t, srv.Start(mux))
	t.Cleanup(srv.Shutdown)
	return srv
}

func (l *live) enqueue(t *testing.T, task *asynq.Task, opts ...asynq.Option) *asynq.TaskInfo {
	t.Helper()
	opts = append([]asynq.Option{asynq.Queue(l.queue), asynq.Retention(time.Minute)}, opts...)
	info, err := l.client.Enqueue(task, opts...)
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

// Serve implements tasktest.Queue.
func (l *live) Serve(t *testing.T, s tasktest.Setup) {
	lock := guardasynq.Middleware(s.Guard, s.Rule)
	l.serve(t, asynq.Config{RetryDelayFunc: atOnce}, func(next asynq.Handler) asynq.Handler {
		locked := lock(next)
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := locked.ProcessTask(ctx, task)
			s.Seen(err)
			return err
		})
	}, func(ctx context.Context, _ *asynq.Task) error { return s.Work(ctx) })
}

// Add implements tasktest.Queue.
func (l *live) Add(t *testing.T, payload, header, value string) func() tasktest.State {
	info := l.enqueue(t, asynq.NewTaskWithHeaders("order:charge", []byte(payload), map[string]string{header: value}))
	return func() tasktest.State {
		now, err := l.inspector.GetTaskInfo(l.queue, info.ID)
		if errors.Is(err, asynq.ErrTaskNotFound) {
			return tasktest.State{Done: true} // dropped
		}
		require.NoError(t, err)
		return tasktest.State{
			Done:     now.State == asynq.TaskStateCompleted,
			GivenUp:  now.State == asynq.TaskStateArchived,
			Failures: now.Retried,
		}
	}
}
