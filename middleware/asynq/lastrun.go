package guardasynq

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// lastRun says whether asynq archives the task of ctx on any error, and until when it is
// worth while to try to lock: a little less than to the task's deadline, at which asynq
// stops listening and would archive it without saying that the lock was busy.
func lastRun(ctx context.Context) (end time.Time, ok bool) {
	retried, known := asynq.GetRetryCount(ctx)
	retries, _ := asynq.GetMaxRetry(ctx)
	deadline, bounded := ctx.Deadline()
	if !known || !bounded || retried < retries {
		return time.Time{}, false
	}
	margin := min(time.Until(deadline)/10, time.Second)
	return deadline.Add(-margin), true
}

// tryUntil tries to lock until end, also while Redis is down or the Guard closed: when
// the process shuts down, asynq puts the task back into its queue meanwhile.
func tryUntil(ctx context.Context, end time.Time, try func(...guard.LockOption) (own, err error)) (own, err error) {
	for {
		left := max(time.Until(end), 0)
		own, err = try(guard.Wait(left))
		pause, passes := locking.RetryAfter(err)
		if !passes || time.Until(end) < pause {
			return own, err
		}
		select {
		case <-ctx.Done():
			return own, err
		case <-time.After(pause):
		}
	}
}
