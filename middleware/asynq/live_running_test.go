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
