package guardasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
)

func TestTasks(t *testing.T) {
	t.Parallel()
	tasktest.Suite(t, func(t *testing.T) tasktest.Queue { return newLive(t) })
}

// Serve implements tasktest.Queue.
func (l *live) Serve(t *testing.T, s tasktest.Setup) {
	rule := guardasynq.Lock(tasktest.Template, s.Options...)
	if s.Skip {
		rule = rule.Skip(func(context.Context, *asynq.Task) bool { return true })
	}
	if s.Once != nil {
		rule = rule.Once(tasktest.Keep, s.Once...)
	}
	lock := guardasynq.Middleware(s.Guard, rule)
	cfg := guardasynq.Configure(asynq.Config{RetryDelayFunc: atOnce})
	l.serve(t, cfg, func(next asynq.Handler) asynq.Handler {
		locked := lock(next)
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := locked.ProcessTask(ctx, task)
			s.Seen(err)
			return err
		})
	}, func(ctx context.Context, _ *asynq.Task) error { return s.Work(ctx) })
}

// Add implements tasktest.Queue.
func (l *live) Add(t *testing.T, payload string) func() tasktest.State {
	info, err := l.client.Enqueue(asynq.NewTask("order:charge", []byte(payload)), asynq.Queue(l.queue), asynq.Retention(time.Minute))
	require.NoError(t, err)
	return func() tasktest.State {
		now, err := l.inspector.GetTaskInfo(l.queue, info.ID)
		require.NoError(t, err)
		return tasktest.State{
			Done:     now.State == asynq.TaskStateCompleted,
			GivenUp:  now.State == asynq.TaskStateArchived,
			Failures: now.Retried,
		}
	}
}
