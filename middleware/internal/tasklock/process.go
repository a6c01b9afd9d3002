package tasklock

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Locker is a Rule in use. It may be used concurrently.
type Locker struct {
	locks *locking.Locker[*call]
	rule  Rule
}

// Work is the work on one Task.
type Work struct {
	Task
	Name string // of the lock, where the Rule sets none
	Do   func(context.Context) error
	// Result is a guard.Encoding that writes and reads what Do leaves for others to see; nil for nothing.
	Result guard.OnceOption
}

// Process does w: by lock, which runs it under the locks of its task, or without a lock where the Rule says Unlocked. The
// error of w.Do comes back identical. Where guard has an error instead, settle returns the one that the queue's library is
// to see, and the Rule's OnError may return another one, except where a busy task is dropped.
func (l *Locker) Process(ctx context.Context, w *Work, lock func(context.Context, *Work) (own, err error), settle func(Strategy, error) error) error {
	ctx = l.locks.Context(ctx)
	if l.locks.Skips(&call{ctx, w.Task}) {
		return w.Do(ctx)
	}
	own, err := lock(ctx, w)
	if own != nil || err == nil {
		return own
	}
	verdict := l.Verdict(err)
	if err = settle(verdict, err); verdict == Drop || l.rule.onError == nil {
		return err
	}
	return l.rule.onError(ctx, w.Task, err)
}

// Run does w under the locks of its task: see locking.Locker. With Once, it does not where work for the key was done: that
// is a success.
func (l *Locker) Run(ctx context.Context, w *Work) (own, err error) { return l.RunWith(ctx, w) }

// RunWith is Run with options that are applied last.
func (l *Locker) RunWith(ctx context.Context, w *Work, opts ...guard.LockOption) (own, err error) {
	c := &call{ctx, w.Task}
	if !l.rule.locks.IsOnce() {
		return l.locks.Run(ctx, w.Name, c, w.Do, opts...)
	}
	once := []guard.OnceOption{guard.Fingerprint([]byte(w.Kind), w.Payload), nothing, w.Result}
	for _, opt := range opts {
		once = append(once, opt)
	}
	_, _, own, err = locking.RunOnce(ctx, l.locks, w.Name, c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.Do(ctx)
	}, once...)
	return own, err
}

// nothing is what a record has of work without a result.
var nothing = guard.Encoding(
	func(any) ([]byte, error) { return nil, nil },
	func([]byte, any) error { return nil })

// IsOnce says whether the Rule has Once.
func (l *Locker) IsOnce() bool { return l.rule.locks.IsOnce() }

// WaitsOn says whether a task whose lock stays busy is to be tried again.
func (l *Locker) WaitsOn() bool { return l.rule.onBusy == Retry }

// Verdict returns what becomes of a task that ended with guard's err.
func (l *Locker) Verdict(err error) Strategy {
	switch {
	case busy(err):
		return l.rule.onBusy
	case staysBad(err):
		return GiveUp
	}
	return Retry
}

// busy returns whether err is the error of a lock that stayed busy for as long as it was waited for.
// What else keeps a task from running, such as Redis being down or the end of its context, is not.
func busy(err error) bool {
	var busy *guard.BusyError
	_, passes := locking.RetryAfter(err)
	return passes && errors.As(err, &busy) && busy.Err == nil
}

// staysBad returns whether err is the error of a task for which another run is of no use: it lacks a value of
// its key, or has one that cannot be used, or Once refuses to run it.
func staysBad(err error) bool {
	if errors.As(err, new(*guard.OnceError)) {
		return true
	}
	value := locking.ValueErrorIn(err)
	return value != nil && !value.Unfit && errors.Is(err, guard.ErrKey)
}
