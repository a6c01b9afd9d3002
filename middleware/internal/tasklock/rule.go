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

// KeyFunc names what a task locks, by guard.JoinKey for example. It is called once for each try to lock, and from many
// goroutines at a time; ctx is that of the task. Its error is a *guard.KeyError: the queue counts a failure, and the task
// runs again.
type KeyFunc func(ctx context.Context, t Task) (string, error)

// Strategy is what becomes of a task whose lock stayed busy for as long as it was waited for: see Rule.OnBusy.
type Strategy int

// The strategies, the same for all queues.
const (
	Retry  Strategy = iota // the task runs again later: the default
	Drop                   // the task ends without running, for work that the lock's holder does anyway
	GiveUp                 // the task ends as a failure, for work that must not be late
)

// Rule is how tasks are locked. Its methods return a changed copy; given more than once, the last call counts, except
// for And and Unlocked.
type Rule struct {
	locks   locking.Rule[*call]
	onBusy  Strategy
	onError func(ctx context.Context, t Task, err error) error
}

// And adds the key of one more template: all keys, 64 at most, are locked or none, as guard.WithLocks does. It panics if
// the template is malformed.
func (r Rule) And(template string) Rule {
	r.locks = r.locks.And(template)
	return r
}

// Once has a task of the key run once. A task that is delivered again until keep has passed is acknowledged without its
// handler: 1 ms to 366 days, counted from the end of the run, and longer than the queue may deliver it again. What the
// handler left is given again: the messages that a watermill handler returned, and what guardasynq.ResultWriter wrote.
// More of it than guard.MaxResult, 64 KiB by default, is not kept: the next delivery is guard.ErrNotKept.
//
// A task of another kind or payload with the same key is given up with guard.ErrOtherInput: name what is done in the key,
// as in charge:{order_id}. Two handlers of one watermill topic need two keys, or one acknowledges the work of the other.
// docs/guides/idempotency-keys.md says what comes after a crash.
//
// The first key keeps the record; those of And are locked while the handler runs. Once goes without guard.Limit and
// guard.Shared. guard.Fingerprint and guard.Encoding have no effect. The record is in Redis, not in a transaction of yours.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	r.locks = r.locks.Once(keep, opts)
	return r
}

// Unlocked lets tasks run without a lock for which any unlocked returns true. Their context carries the Guard all the
// same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(ctx context.Context, t Task) bool) Rule {
	if unlocked != nil {
		r.locks = r.locks.Unlocked(func(c *call) bool { return unlocked(c.ctx, c.task) })
	}
	return r
}

// OnBusy sets what becomes of a task whose lock stayed busy: Retry, Drop or GiveUp. Other errors, such as Redis being
// down, do not depend on it: the task runs again later.
func (r Rule) OnBusy(s Strategy) Rule {
	r.onBusy = s
	return r
}

// OnError turns guard's errors, but not the handler's own, into what the queue gets to see. err is marked already as the
// queue's library wants it, after OnBusy; nil ends the task as done. It is not called where Drop ends a task. A nil handle
// is ignored.
func (r Rule) OnError(handle func(ctx context.Context, t Task, err error) error) Rule {
	if handle != nil {
		r.onError = handle
	}
	return r
}

// Adapter is what one adapter has of its own.
type Adapter struct {
	keys locking.Adapter[*call]
	wait time.Duration
}

// New makes the Adapter of a package called name. wait is for a lock where neither the Rule nor the Guard say how long.
func New(name string, wait time.Duration) *Adapter {
	return &Adapter{locking.Adapter[*call]{Name: name, Grammar: words}, wait}
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
	return Rule{locks: a.keys.LockFunc(func(c *call) (string, error) { return key(c.ctx, c.task) }, opts)}
}

// ParseKey makes the KeyFunc of a template.
func (a *Adapter) ParseKey(template string) (KeyFunc, error) {
	key, err := a.keys.ParseKey(template)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, t Task) (string, error) { return key(&call{ctx, t}) }, nil
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

// CheckRows returns which rows of a table lock nothing, as used returns false for them, and why.
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
