package guardasynq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// handlers locks tasks. of returns a task's Locker, or nil, and the name of its lock.
func handlers(of func(*asynq.Task) (l *tasklock.Locker, name string)) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			if l, name := of(t); l != nil {
				return process(ctx, l, name, t, next)
			}
			return next.ProcessTask(ctx, t)
		})
	}
}

func process(ctx context.Context, l *tasklock.Locker, name string, t *asynq.Task, next asynq.Handler) error {
	id, _ := asynq.GetTaskID(ctx)
	queue, _ := asynq.GetQueueName(ctx)
	header := func(name string) string { return t.Headers()[name] }
	a := &attempt{locks: l}
	a.Name = name
	a.Task = Task{Kind: t.Type(), ID: id, Queue: queue, Payload: t.Payload(), Header: header, Native: t}
	a.Do = func(held context.Context) error {
		if a.timer != nil && !a.timer.Stop() {
			return guardhook.ErrNotBegun
		}
		return next.ProcessTask(held, t)
	}
	left := &result{task: t}
	a.Result = left.encoding()
	err := l.Process(context.WithValue(ctx, resultKey{}, left), &a.Work, a.run, settle)
	if err == nil && len(left.kept) > 0 {
		_, err = left.Write(left.kept)
	}
	return err
}

// settle marks err for asynq as the strategy says.
func settle(s Strategy, err error) error {
	switch s {
	case Drop:
		return fmt.Errorf("%w: %w", err, asynq.RevokeTask)
	case GiveUp:
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// attempt is the work on a task.
type attempt struct {
	tasklock.Work
	locks *tasklock.Locker
	timer *time.Timer // ends the wait for the lock; nil if the task has no deadline
}

// run does the work under its locks. It returns the error of the handler (own), or why the handler did not run or ran in vain
// (err). It gives up on the lock a little before the task's deadline: at the deadline asynq stops listening and counts a
// failure. Asynq archives a task that has no retry left on any error. For such a task, run tries again until then, also while
// Redis is down or the Guard closed: when the process shuts down, asynq puts the task back into its queue meanwhile.
func (a *attempt) run(ctx context.Context, w *tasklock.Work) (own, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return a.locks.Run(ctx, w)
	}
	end := deadline.Add(-min(time.Until(deadline)/10, time.Second))
	retried, known := asynq.GetRetryCount(ctx)
	retries, _ := asynq.GetMaxRetry(ctx)
	if !known || retried < retries {
		return a.runBefore(ctx, end)
	}
	if a.locks.WaitsOn() {
		a.Options = []guard.LockOption{guard.Wait(guard.Forever)}
	}
	for {
		own, err = a.runBefore(ctx, end)
		pause, passes := locking.RetryAfter(err)
		if !passes || a.locks.Verdict(err) != Retry || time.Until(end) < pause {
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

// runBefore does the work under locks that it gets before end.
func (a *attempt) runBefore(ctx context.Context, end time.Time) (own, err error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	a.timer = time.AfterFunc(time.Until(end), func() { giveUp(errLate) })
	defer a.timer.Stop()
	own, err = a.locks.Run(ctx, &a.Work)
	if !errors.Is(own, guardhook.ErrNotBegun) && (own != nil || !errors.Is(err, errLate) || errors.Is(err, guard.ErrKey)) {
		return own, err
	}
	if busy := (*guard.BusyError)(nil); errors.As(err, &busy) { // as if the wait were used up
		usedUp := *busy
		usedUp.Err = nil
		return nil, &usedUp
	}
	return nil, &guard.StoreError{Op: "acquire", Err: errLate}
}

// ResultWriter returns a writer of the result of t, for handlers under a Rule with Once; ctx is the handler's. The record keeps
// the data of the last Write, and gives it to each task that is acknowledged later without its handler. The record does not have
// data that the handler wrote to t.ResultWriter. A task without a ResultWriter, as in a test, is only recorded.
func ResultWriter(ctx context.Context, t *asynq.Task) io.Writer {
	if r, ok := ctx.Value(resultKey{}).(*result); ok && r.task == t {
		return r
	}
	return &result{task: t}
}

type resultKey struct{}

// result is the result of a task.
type result struct {
	task    *asynq.Task
	kept    []byte // by an earlier run
	mu      sync.Mutex
	written []byte // by the last Write
}

// Write writes the result of the task.
func (r *result) Write(data []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.task.ResultWriter(); w != nil {
		if n, err := w.Write(data); err != nil {
			return n, err
		}
	}
	r.written = bytes.Clone(data)
	return len(data), nil
}

func (r *result) encoding() guard.OnceOption {
	write := func(any) ([]byte, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.written, nil
	}
	return guard.Encoding(write, func(kept []byte, _ any) error { r.kept = kept; return nil })
}
