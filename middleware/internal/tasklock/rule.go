package tasklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// KeyFunc returns the key of a task; guard.JoinKey makes keys. It is called once for each try to lock, from many goroutines.
// ctx is the context of the task. The queue counts an error, a *guard.KeyError, as a failure, and runs the task again.
type KeyFunc func(ctx context.Context, t Task) (string, error)

// Strategy says how a task ends whose lock stayed busy until the wait was over: see Rule.OnBusy.
type Strategy int

// The strategies, the same for all queues.
const (
	Retry  Strategy = iota // the task runs again later: the default
	Drop                   // the task ends without its handler, for work that the lock's holder does anyway
	GiveUp                 // the task ends as a failure, for work that must not be late
)

// Rule says how tasks are locked. Its methods return a changed copy. Of several calls of a method the last one counts, except
// for And and Unlocked, whose calls add up.
type Rule struct {
	locks   locking.Rule[*Work]
	onBusy  Strategy
	onError func(ctx context.Context, t Task, err error) error
}

// And adds the key of one more template: all keys, 64 at most, are locked or none, as guard.WithLocks does. It panics if
// the template is malformed.
func (r Rule) And(template string) Rule {
	r.locks = r.locks.And(template)
	return r
}

// Once runs a task of the key once. Until keep has passed, a task that is delivered again is acknowledged without its handler.
// keep is 1 ms to 366 days, counted from the end of the run; choose it longer than the queue may deliver the task again. The
// result of the handler is given again: the messages that a watermill handler returned, or the data that it wrote to
// guardasynq.ResultWriter. A result longer than guard.MaxResult, 64 KiB by default, is not kept: the next delivery is
// guard.ErrNotKept.
//
// A task of another kind or payload with the same key is given up with guard.ErrOtherInput: name the action in the key, as in
// charge:{order_id}. Two handlers of one watermill topic need two keys, or one acknowledges the work of the other.
// docs/guides/idempotency-keys.md says what happens after a crash.
//
// The first key keeps the record; those of And are locked while the handler runs. Once does not go with guard.Limit and
// guard.Shared. guard.Fingerprint and guard.Encoding have no effect. The record is in Redis, not in a transaction of yours.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	r.locks = r.locks.Once(keep, opts)
	return r
}

// Unlocked runs a task without a lock if any unlocked returns true for it. The context of the task carries the Guard all the
// same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(ctx context.Context, t Task) bool) Rule {
	if unlocked != nil {
		r.locks = r.locks.Unlocked(func(w *Work) bool { return unlocked(w.ctx, w.Task) })
	}
	return r
}

// OnBusy sets how a task ends whose lock stayed busy: Retry, Drop or GiveUp. After other errors, such as Redis being down, the
// task runs again later in any case.
func (r Rule) OnBusy(s Strategy) Rule {
	r.onBusy = s
	return r
}

// OnError replaces guard's errors, but not the handler's own, with the result of handle. err is already marked for the queue's
// library, as OnBusy says. A nil result ends the task as done. handle is not called when Drop ends a task. A nil handle is
// ignored.
func (r Rule) OnError(handle func(ctx context.Context, t Task, err error) error) Rule {
	if handle != nil {
		r.onError = handle
	}
	return r
}

// Adapter is the part of an adapter that does not depend on its queue.
type Adapter struct {
	keys locking.Adapter[*Work]
	wait time.Duration
}

// New makes the Adapter of a package called name. wait is the wait for a busy lock if neither the Rule nor the Guard set one.
func New(name string, wait time.Duration) *Adapter {
	return &Adapter{locking.Adapter[*Work]{Name: name, Grammar: words}, wait}
}

// Lock is the Rule of a key template. It panics if the template is malformed.
func (a *Adapter) Lock(template string, opts []guard.LockOption) Rule {
	return Rule{locks: a.keys.Lock(template, opts)}
}

// LockFunc is the Rule of a KeyFunc.
func (a *Adapter) LockFunc(key KeyFunc, opts []guard.LockOption) Rule {
	if key == nil {
		return Rule{}
	}
	return Rule{locks: a.keys.LockFunc(func(w *Work) (string, error) { return key(w.ctx, w.Task) }, opts)}
}

// ParseKey makes the KeyFunc of a template.
func (a *Adapter) ParseKey(template string) (KeyFunc, error) {
	key, err := a.keys.ParseKey(template)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, t Task) (string, error) { return key(&Work{Task: t}) }, nil
}

// Must binds the Rule to g. It panics if the Rule has no key, or an option is out of its bounds.
func (a *Adapter) Must(g *guard.Guard, r Rule) *Locker {
	l, err := a.bind(g, r)
	if err != nil {
		panic(a.keys.Name + ": " + err.Error())
	}
	return l
}

func (a *Adapter) bind(g *guard.Guard, r Rule) (*Locker, error) {
	bound, err := r.locks.Bind(g, a.wait)
	if err == nil && (r.onBusy < Retry || r.onBusy > GiveUp) {
		err = fmt.Errorf("OnBusy %d is none of Retry, Drop, GiveUp", r.onBusy)
	}
	return &Locker{bound, r}, err
}

// Table binds the Rules of a table to g. It panics with the row that is wrong.
func (a *Adapter) Table(g *guard.Guard, rows map[string]Rule) map[string]*Locker {
	return locking.Table(a.keys.Name, rows, func(name string, r Rule) (*Locker, error) {
		if strings.TrimSpace(name) == "" {
			return nil, errBlank
		}
		return a.bind(g, r)
	})
}

var errBlank = errors.New("it is blank")

// CheckRows returns an error with the text why for each row of a table for which used returns false.
func (a *Adapter) CheckRows(rows map[string]Rule, used func(name string) bool, why string) error {
	return locking.CheckTable(a.keys.Name, rows, func(name string, _ Rule) error {
		switch {
		case strings.TrimSpace(name) == "":
			return errBlank
		case !used(name):
			return errors.New(why)
		}
		return nil
	})
}
