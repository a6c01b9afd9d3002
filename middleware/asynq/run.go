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

// handlers locks tasks by what of returns for them: a Locker, or nil, and the name of the lock. Asynq calls the function that it
// returns for every task: it does nothing but make a closure.
func handlers(of func(*asynq.Task) (l *tasklock.Locker, name string)) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		if f, ok := next.(asynq.HandlerFunc); next == nil || ok && f == nil {
			panic("guardasynq: no handler")
		}
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
	task := Task{Kind: t.Type(), ID: id, Queue: queue, Payload: t.Payload(), Header: header, Native: t}
	w := &tasklock.Work{Task: task, Name: name, Do: func(ctx context.Context) error { return next.ProcessTask(ctx, t) }}
	if !l.IsOnce() {
		return l.Process(ctx, w, func(ctx context.Context, w *tasklock.Work) (own, err error) { return run(ctx, l, w) }, settle)
	}
	left := &result{task: t}
	w.Result, w.Do = left.encoding(), func(ctx context.Context) error {
		return next.ProcessTask(context.WithValue(ctx, resultKey{}, left), t)
	}
	return l.Process(ctx, w, func(ctx context.Context, w *tasklock.Work) (own, err error) {
		if own, err = run(ctx, l, w); own == nil && err == nil {
			own = left.again()
		}
		return own, err
	}, settle)
}

// settle gives err the meaning for asynq that the strategy wants.
func settle(s Strategy, err error) error {
	switch s {
	case Drop:
		return fmt.Errorf("%w: %w", err, asynq.RevokeTask)
	case GiveUp:
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// run does w under its locks. It returns what the handler returned (own), or why the handler did not run or ran in vain (err). It
// gives up on the lock a little before the task's deadline: at the deadline itself asynq would not listen any more, and count a
// failure. A task that has no retry left is archived by asynq on any error. So run tries until then, also while Redis is down or
// the Guard closed: when the process shuts down, asynq puts the task back into its queue meanwhile.
func run(ctx context.Context, l *tasklock.Locker, w *tasklock.Work) (own, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return l.Run(ctx, w)
	}
	end := deadline.Add(-min(time.Until(deadline)/10, time.Second))
	retried, known := asynq.GetRetryCount(ctx)
	retries, _ := asynq.GetMaxRetry(ctx)
	last := known && retried >= retries
	var opts []guard.LockOption
	if last && l.WaitsOn() {
		opts = append(opts, guard.Wait(guard.Forever))
	}
	for {
		own, err = runBefore(ctx, end, l, w, opts)
		pause, passes := locking.RetryAfter(err)
		if !last || !passes || l.Verdict(err) != Retry || time.Until(end) < pause {
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

// runBefore does w under locks that are there before end.
func runBefore(ctx context.Context, end time.Time, l *tasklock.Locker, w *tasklock.Work, opts []guard.LockOption) (own, err error) {
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(time.Until(end), func() { giveUp(errLate) })
	defer timer.Stop()
	inTime := *w
	inTime.Do = func(held context.Context) error {
		if !timer.Stop() {
			return guardhook.ErrNotBegun
		}
		return w.Do(held)
	}
	own, err = l.RunWith(waiting, &inTime, opts...)
	var busy *guard.BusyError
	switch {
	case errors.Is(own, guardhook.ErrNotBegun):
	case own != nil || !errors.Is(err, errLate) || errors.Is(err, guard.ErrKey):
		return own, err
	case errors.As(err, &busy): // as if the wait were used up
		usedUp := *busy
		usedUp.Err = nil
		return nil, &usedUp
	}
	return nil, &guard.StoreError{Op: "acquire", Err: errLate}
}

// ResultWriter returns a writer of the result of t, for handlers under a Rule with Once; ctx is the handler's. What was written
// last is kept, and becomes the result of each task that is acknowledged later without its handler. What a handler writes by
// t.ResultWriter itself is not kept. For a task without a ResultWriter, as in a test, it only keeps.
func ResultWriter(ctx context.Context, t *asynq.Task) io.Writer {
	if r, ok := ctx.Value(resultKey{}).(*result); ok && r.task == t {
		return r
	}
	return &result{task: t}
}

type resultKey struct{}

// result is what a handler leaves for those who ask for the task's result.
type result struct {
	task    *asynq.Task
	kept    []byte // of an earlier run
	mu      sync.Mutex
	written []byte // last
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

// again writes what an earlier run left.
func (r *result) again() error {
	if len(r.kept) == 0 {
		return nil
	}
	_, err := r.Write(r.kept)
	return err
}

func (r *result) encoding() guard.OnceOption {
	write := func(any) ([]byte, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.written, nil
	}
	return guard.Encoding(write, func(kept []byte, _ any) error { r.kept = kept; return nil })
}
