package guardriver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/jsonfield"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

// Rule says how jobs are locked: the argument of Middleware, and a row of Jobs. Lock and LockFunc
// make one. Its methods give a changed copy; given more than once, the last call counts, but for
// And and Unlocked.
type Rule struct {
	rule taskrule.Rule[*rivertype.JobRow]
}

// Lock is the Rule of a key template, as the package comment describes it. opts are those of
// the lock itself: guard.TTL, guard.Limit and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return Rule{adapter.Lock(template, opts)} }

// KeyFunc names what a job locks, by guard.JoinKey for example. It is called once for each run, and
// from many goroutines at a time. Its error uses up an attempt; make it a river.JobCancel if the
// job will never have a key.
type KeyFunc func(ctx context.Context, job *rivertype.JobRow) (string, error)

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return Rule{adapter.LockFunc(key, opts)} }

// And adds the key of one more template: all keys, 64 at most, are locked or none, as
// guard.WithLocks does. It panics if the template is malformed.
func (r Rule) And(template string) Rule { return Rule{r.rule.And(template)} }

// Once has a job of the key run once. What comes again until keep has passed completes without its worker: 1 ms to
// 366 days, counted from the end of the run, and longer than River may work on the job again. A job of another
// kind or other arguments with the same key is cancelled with guard.ErrOtherInput: name what is done in the
// key, as in {job:kind}:{order_id}. docs/guides/river.md says what comes after a crash.
//
// It takes one key, without And, guard.Limit and guard.Shared. guard.Fingerprint, guard.Encoding and
// guard.MaxResult have no effect. The record is in Redis, not in a transaction of River's or yours.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	return Rule{r.rule.Once(keep, opts)}
}

// Unlocked lets jobs run without a lock for which any unlocked returns true. Their context carries the
// Guard all the same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(ctx context.Context, job *rivertype.JobRow) bool) Rule {
	return Rule{r.rule.Unlocked(unlocked)}
}

// OnError turns guard's errors, but not the worker's own, into what River gets to see, after
// BusyStrategy: err may have a river.JobSnooze or a river.JobCancel in it. nil completes the job. A
// nil handle is ignored.
func (r Rule) OnError(handle func(ctx context.Context, job *rivertype.JobRow, err error) error) Rule {
	if handle != nil {
		r.rule.OnError = handle
	}
	return r
}

// Strategy is what becomes of a job whose lock stayed busy for as long as it was waited for. See
// Rule.BusyStrategy.
type Strategy int

const (
	// Retry snoozes the job, and is the default.
	Retry Strategy = iota

	// Drop completes the job without running it, for work that its lock's holder does anyway.
	// OnError is not called.
	Drop

	// Cancel cancels the job, for work that must not be late.
	Cancel
)

// BusyStrategy sets what becomes of a job whose lock stayed busy. What else keeps a worker from
// running, as Redis down, does not depend on it.
func (r Rule) BusyStrategy(s Strategy) Rule {
	r.rule.Strategy = int(s)
	return r
}

// settle gives err the meaning for River that the strategy wants.
func (s Strategy) settle(err error) error {
	switch busy := taskrule.Busy(err); {
	case busy && s == Drop:
		return nil
	case busy && s == Cancel, taskrule.StaysBad(err):
		return river.JobCancel(err)
	}
	return snoozed(err)
}

// snoozed has River snooze a job if what kept it from running passes.
func snoozed(err error) error {
	delay, passes := locking.RetryAfter(err)
	if !passes || errors.Is(err, &river.JobCancelError{}) {
		return err
	}
	// At random, so that jobs do not come back all at once. A snooze that is in err already comes first.
	return fmt.Errorf("%w: %w", err, river.JobSnooze(delay+rand.N(delay)))
}

type source = taskrule.Source[*rivertype.JobRow]

var adapter = taskrule.Adapter[*rivertype.JobRow]{
	Adapter: locking.Adapter[source]{Name: "guardriver", Grammar: taskrule.Grammar[*rivertype.JobRow]{
		Kinds: map[string]keytemplate.Bind[source]{
			"job":      bindJob,
			"metadata": jsonfield.Bind(func(src source) []byte { return src.Task.Metadata }),
		},
		Bare: jsonfield.Bind(func(src source) []byte { return src.Task.EncodedArgs }),
	}},
	Wait:       time.Second,
	Strategies: []string{"Retry", "Drop", "Cancel"},
	Input:      func(src source) [][]byte { return [][]byte{[]byte(src.Task.Kind), src.Task.EncodedArgs} },
}

func bindJob(name string) (keytemplate.Extract[source], error) {
	switch name {
	case "kind":
		return func(src source) (string, error) { return src.Task.Kind, nil }, nil
	case "id":
		return func(src source) (string, error) { return strconv.FormatInt(src.Task.ID, 10), nil }, nil
	case "queue":
		return func(src source) (string, error) { return src.Task.Queue, nil }, nil
	}
	return nil, fmt.Errorf("%q is none of kind, id, queue", name)
}
