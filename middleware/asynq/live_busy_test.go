package guardasynq_test

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func atOnce(int, error, *asynq.Task) time.Duration { return 0 }

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
