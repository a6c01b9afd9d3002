package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

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

// What comes of a task whose handler fails is the same with a lock and without.
func TestLiveRunning_LiveErrorsAndPanicsComeOutAsWithoutALock(t *testing.T) {
	t.Parallel()
	for i, handler := range []asynq.HandlerFunc{
		succeed,
		func(context.Context, *asynq.Task) error { return errOwn },
		func(context.Context, *asynq.Task) error { return fmt.Errorf("bad: %w", asynq.SkipRetry) },
		func(context.Context, *asynq.Task) error { return fmt.Errorf("old: %w", asynq.RevokeTask) },
		func(context.Context, *asynq.Task) error { panic("boom") },
		func(context.Context, *asynq.Task) error { panic(errOwn) },
		func(_ context.Context, t *asynq.Task) error { _ = t.Payload()[len(t.Payload())]; return nil },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			without := outcomeOf(t, func(next asynq.Handler) asynq.Handler { return next }, handler)
			with := outcomeOf(t, lockOrders(realGuard(t)), handler)
			assert.Equal(t, without, with)
		})
	}
}

type taskOutcome struct {
	State   asynq.TaskState // 0 if the task is gone
	LastErr string
	Retried int
	Err     string // what the ErrorHandler got
	Panic   bool
}

func outcomeOf(t *testing.T, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) taskOutcome {
	t.Helper()
	l := newLive(t)
	srv := l.serve(t, guardasynq.Configure(asynq.Config{}), mw, handler)
	info := l.enqueue(t, asynq.MaxRetry(1))
	var got taskOutcome
	require.Eventually(t, func() bool {
		now, err := l.inspector.GetTaskInfo(l.queue, info.ID)
		if err != nil {
			got = taskOutcome{}
			return errors.Is(err, asynq.ErrTaskNotFound)
		}
		got.State, got.LastErr, got.Retried = now.State, now.LastErr, now.Retried
		return now.State != asynq.TaskStatePending && now.State != asynq.TaskStateActive
	}, patience, 10*time.Millisecond)
	srv.Shutdown()
	if len(l.failed) > 0 {
		err := l.failure(t)
		got.Err, got.Panic = err.Error(), asynq.IsPanicError(err)
	}
	return got
}
