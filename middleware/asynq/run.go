package guardasynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

func process(ctx context.Context, l *taskrule.Locker[*asynq.Task], name string, t *asynq.Task, next asynq.Handler) error {
	r := run{l, name, t, func(ctx context.Context) error { return next.ProcessTask(ctx, t) }}
	return l.Process(ctx, t, r.work, r.do, r.strategy().settle)
}

// run is one run of a task. Its methods return what the handler returned (own), or why
// the handler did not run or ran in vain (err).
type run struct {
	*taskrule.Locker[*asynq.Task]
	name string // of the lock, if the options set none
	task *asynq.Task
	work func(context.Context) error
}

func (r *run) strategy() Strategy { return Strategy(r.Strategy()) }

func (r *run) do(ctx context.Context) (own, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return r.Run(ctx, r.name, r.task, r.work)
	}
	end := deadline.Add(-min(time.Until(deadline)/10, time.Second))
	switch {
	case !isLast(ctx):
		return r.tryBefore(ctx, end)
	case r.strategy() == Retry:
		return r.tryAgain(ctx, end, guard.Wait(guard.Forever))
	}
	return r.tryAgain(ctx, end)
}

// isLast says whether asynq archives the task of ctx on any error.
func isLast(ctx context.Context) bool {
	retried, known := asynq.GetRetryCount(ctx)
	retries, _ := asynq.GetMaxRetry(ctx)
	return known && retried >= retries
}

// tryAgain tries to lock until end, also while Redis is down or the Guard closed: when
// the process shuts down, asynq puts the task back into its queue meanwhile.
func (r *run) tryAgain(ctx context.Context, end time.Time, opts ...guard.LockOption) (own, err error) {
	for {
		own, err = r.tryBefore(ctx, end, opts...)
		pause, passes := locking.RetryAfter(err)
		if !passes || r.strategy() != Retry && taskrule.Busy(err) || time.Until(end) < pause {
			return own, err
		}
		select {
		case <-ctx.Done():
			return own, err
		case <-time.After(pause):
		}
	}
}

// errLate ends a wait for the lock.
var errLate = errors.New("no answer in the time that the task has left")

// tryBefore gives up on the lock at end, a little before the task's deadline. At the
// deadline itself asynq would not listen any more, and count a failure.
func (r *run) tryBefore(ctx context.Context, end time.Time, opts ...guard.LockOption) (own, err error) {
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(time.Until(end), func() { giveUp(errLate) })
	defer timer.Stop()
	late := false
	own, err = r.Run(waiting, r.name, r.task, func(held context.Context) error {
		if !timer.Stop() {
			late = true
			return locking.ErrFailed // a success would be kept
		}
		return r.work(held)
	}, opts...)
	switch {
	case late:
		return nil, noAnswer()
	case own == nil && errors.Is(err, errLate):
		return nil, outOfTime(err)
	}
	return own, err
}

// outOfTime has the error of a wait that errLate ended say what one that was used up says.
func outOfTime(err error) error {
	var busy *guard.BusyError
	switch {
	case errors.Is(err, guard.ErrKey):
		return err
	case errors.As(err, &busy):
		usedUp := *busy
		usedUp.Err = nil
		return &usedUp
	}
	return noAnswer()
}

func noAnswer() error { return &guard.StoreError{Op: "acquire", Err: errLate} }
