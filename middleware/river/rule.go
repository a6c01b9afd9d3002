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
// make one; its methods give a changed copy.
type Rule struct {
	rule taskrule.Rule[*rivertype.JobRow]
}

// Lock is the Rule of a key template, as the package comment describes it, with options of the
// lock itself: guard.TTL, guard.Wait, guard.Limit, and so on. It panics if the template is
// malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return Rule{adapter.Lock(template, opts)} }

// KeyFunc names what a job locks. It is called once for each run, and from many goroutines at a
// time. Its error uses up an attempt; make it a river.JobCancel if the job will never have a key.
// See guard.JoinKey for how to put a key together.
type KeyFunc func(ctx context.Context, job *rivertype.JobRow) (string, error)

// LockFunc is Lock for a key function of your own.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return Rule{adapter.LockFunc(key, opts)} }

// And adds the key of one more template, which is locked as well: all of them or none, as
// guard.WithLocks does, in an order that does not depend on how they are given, and within one
// Wait. A Rule has at most 64 keys. It panics if the template is malformed.
func (r Rule) And(template string) Rule { return Rule{r.rule.And(template)} }

// Once has a job of the key run once. A job that comes after it completes, and its worker does not run, until
// keep has passed: 1 ms to 366 days, counted from the end of the run, and longer than River may work on the job
// again.
//
// It is noted after the worker returned nil. An error of the worker leaves nothing behind: River retries as ever. While a
// run is in progress, others are busy, as BusyStrategy says. After a crash, a panic, a loss of the lock, or an
// error that came when the job's context was over, the next run learns of it by guard.Earlier. With guard.AtMostOnce in opts
// there is no next run: the job is cancelled, with guard.ErrUnknownOutcome in a river.JobCancel, for a person to look at; see
// Guard.Forget.
//
// A key belongs to one piece of work: its fingerprint is the kind and the arguments. A job of another kind or other arguments
// with the same key is cancelled with guard.ErrOtherInput. So name what is done in the key, as in
// {job:kind}:{order_id}. A job has no result: guard.Fingerprint, guard.Encoding and guard.MaxResult have no effect.
//
// The record is in Redis, and not in the transaction of river.JobCompleteTx or of the worker: a worker that can write to
// PostgreSQL only is safer with a unique row there.
//
// Middleware and Annotate panic if keep or an option is out of its bounds, or with And, guard.Limit or
// guard.Shared. Given more than once, the last one counts.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	return Rule{r.rule.Once(keep, opts)}
}

// Skip lets jobs run without a lock: those for which skip returns true. Their context carries the
// Guard all the same. Given more than once, one true is enough. A nil skip is ignored.
func (r Rule) Skip(skip func(ctx context.Context, job *rivertype.JobRow) bool) Rule {
	return Rule{r.rule.Skip(skip)}
}

// OnError turns guard's errors into what River gets to see, after BusyStrategy: err may have a
// river.JobSnooze or a river.JobCancel in it. nil completes the job. It is not called for the
// worker's own errors. Given more than once, the last one counts. A nil handle is ignored.
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

	// SkipRun completes the job without running it, for work that its lock's holder does anyway.
	// OnError is not called.
	SkipRun

	// Cancel cancels the job, for work that must not be late. Its error says that the lock was
	// busy.
	Cancel
)

// BusyStrategy sets what becomes of a job whose lock stayed busy. What else keeps a worker from
// running, as Redis down, a closed Guard or the end of the job's context, does not depend on it.
// Given more than once, the last one counts.
func (r Rule) BusyStrategy(s Strategy) Rule {
	r.rule.Strategy = int(s)
	return r
}

// settle gives err the meaning for River that the strategy wants.
func (s Strategy) settle(err error) error {
	switch busy := taskrule.Busy(err); {
	case busy && s == SkipRun:
		return nil
	case busy && s == Cancel, taskrule.StaysBad(err):
		return river.JobCancel(err)
	}
	return snoozed(err)
}

// snoozed has River snooze a job if what kept it from running passes.
func snoozed(err error) error {
	delay, passes := locking.RetryAfter(err)
	if !passes || errors.Is(err, &river.JobSnoozeError{}) || errors.Is(err, &river.JobCancelError{}) {
		return err
	}
	// At random, so that jobs do not come back all at once.
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
	Strategies: []string{"Retry", "SkipRun", "Cancel"},
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
