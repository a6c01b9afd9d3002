package tasklock

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Locker is a Rule in use. It may be used concurrently.
type Locker struct {
	locks *locking.Locker[*Work]
	rule  Rule
}

// Work is the work on one Task. It is used by one goroutine.
type Work struct {
	Task
	Name string // of the lock, if the Rule sets none
	Do   func(context.Context) error
	// Result is a guard.Encoding that writes and reads the result that Do leaves; nil if it leaves none.
	Result guard.OnceOption
	// Options are applied last.
	Options []guard.LockOption

	ctx context.Context //nolint:containedctx // of the try to lock, for key functions
}

// Process does w: lock runs it under the locks of its task, unless the Rule says Unlocked. The error of w.Do is returned
// unchanged. For an error of guard, settle returns the error for the queue's library, and the Rule's OnError may replace
// that, unless the busy task is dropped.
func (l *Locker) Process(ctx context.Context, w *Work, lock func(context.Context, *Work) (own, err error), settle func(Strategy, error) error) error {
	ctx = l.locks.Context(ctx)
	w.ctx = ctx
	if l.locks.Skips(w) {
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

// Run does w under the locks of its task: see locking.Locker. If the Rule has Once and the work of the key is done, Run
// succeeds without w.Do.
func (l *Locker) Run(ctx context.Context, w *Work) (own, err error) {
	w.ctx = ctx
	if !l.IsOnce() {
		return l.locks.Run(ctx, w.Name, w, w.Do, w.Options...)
	}
	once := []guard.OnceOption{guard.Fingerprint([]byte(w.Kind), w.Payload), nothing, w.Result}
	for _, opt := range w.Options {
		once = append(once, opt)
	}
	_, _, own, err = locking.RunOnce(ctx, l.locks, w.Name, w, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.Do(ctx)
	}, once...)
	return own, err
}

// nothing is the encoding of work without a result.
var nothing = guard.Encoding(
	func(any) ([]byte, error) { return nil, nil },
	func([]byte, any) error { return nil })

// IsOnce returns whether the Rule has Once.
func (l *Locker) IsOnce() bool { return l.rule.locks.IsOnce() }

// WaitsOn returns whether a task whose lock stays busy runs again.
func (l *Locker) WaitsOn() bool { return l.rule.onBusy == Retry }

// Verdict returns how a task ends whose error is guard's err.
func (l *Locker) Verdict(err error) Strategy {
	switch {
	case busy(err):
		return l.rule.onBusy
	case staysBad(err):
		return GiveUp
	}
	return Retry
}

// busy returns whether err is the error of a lock that stayed busy until the wait was over. Redis being down and the end of
// the context are other errors.
func busy(err error) bool {
	var busy *guard.BusyError
	_, passes := locking.RetryAfter(err)
	return passes && errors.As(err, &busy) && busy.Err == nil
}

// staysBad returns whether another run of a task with error err is of no use: a value of its key is missing or unusable, or
// Once refuses to run it.
func staysBad(err error) bool {
	if errors.As(err, new(*guard.OnceError)) {
		return true
	}
	value := locking.ValueErrorIn(err)
	return value != nil && !value.Unfit
}
