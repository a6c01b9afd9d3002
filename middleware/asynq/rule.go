package guardasynq

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/jsonfield"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

// Rule says how tasks are locked: the argument of Middleware, and a row of Tasks. Lock and LockFunc
// make one. Its methods give a changed copy; given more than once, the last call counts, but for
// And and Unlocked.
type Rule struct{ rule taskrule.Rule[*asynq.Task] }

// Lock is the Rule of a key template, as the package comment describes it. opts are those of
// the lock itself: guard.TTL, guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return Rule{adapter.Lock(template, opts)} }

// KeyFunc names what a task locks, by guard.JoinKey for example. It is called once for each try to
// lock, and from many goroutines at a time; ctx is that of the task. Wrap asynq.SkipRetry in its
// error if the task will never have a key.
type KeyFunc func(ctx context.Context, t *asynq.Task) (string, error)

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return Rule{adapter.LockFunc(key, opts)} }

// ParseKey is the KeyFunc of a template that is not a constant. Its error names the column (in
// bytes, from 1) at which the template is malformed. The KeyFunc's errors are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) { return adapter.ParseKey(template) }

// And adds the key of one more template: all keys, 64 at most, are locked or none, as
// guard.WithLocks does. It panics if the template is malformed.
func (r Rule) And(template string) Rule { return Rule{r.rule.And(template)} }

// Once has a task of the key run once. What is delivered again until keep has passed is acknowledged without
// its handler: 1 ms to 366 days, counted from the end of the run, and longer than asynq may deliver it again. A
// task of another type or payload with the same key is archived with guard.ErrOtherInput: name what is done
// in the key, as in {task:type}:{order_id}. docs/guides/asynq.md says what comes after a crash.
//
// It takes one key, without And, guard.Limit and guard.Shared. guard.Fingerprint, guard.Encoding and
// guard.MaxResult have no effect.
func (r Rule) Once(keep time.Duration, opts ...guard.OnceOption) Rule {
	return Rule{r.rule.Once(keep, opts)}
}

// Unlocked lets tasks run without a lock for which any unlocked returns true. Their context carries the
// Guard all the same. A nil unlocked is ignored.
func (r Rule) Unlocked(unlocked func(ctx context.Context, t *asynq.Task) bool) Rule {
	return Rule{r.rule.Unlocked(unlocked)}
}

// OnError turns guard's errors, but not the handler's own, into what asynq gets to see, after
// BusyStrategy; nil lets the task count as done. A nil handle is ignored.
func (r Rule) OnError(handle func(ctx context.Context, t *asynq.Task, err error) error) Rule {
	if handle != nil {
		r.rule.OnError = handle
	}
	return r
}

// Strategy is what becomes of a task whose lock stayed busy for as long as it was waited
// for. See Rule.BusyStrategy.
type Strategy int

const (
	// Retry has the task run again later, and is the default.
	Retry Strategy = iota

	// Drop drops the task, for work that its lock's holder does anyway: the error wraps
	// asynq.RevokeTask. Asynq deletes the task, in spite of asynq.Retention.
	Drop

	// Archive gives the task up, for work that must not be late: the error wraps asynq.SkipRetry.
	Archive
)

// BusyStrategy sets what becomes of a task whose lock stayed busy. What else keeps a handler from
// running, as Redis down, has the task run again later in any case.
func (r Rule) BusyStrategy(s Strategy) Rule {
	r.rule.Strategy = int(s)
	return r
}

// settle gives err the meaning for asynq that the strategy wants.
func (s Strategy) settle(err error) error {
	switch {
	case taskrule.StaysBad(err), s == Archive && taskrule.Busy(err):
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	case s == Drop && taskrule.Busy(err):
		return fmt.Errorf("%w: %w", err, asynq.RevokeTask)
	}
	return err
}

type source = taskrule.Source[*asynq.Task]

var adapter = taskrule.Adapter[*asynq.Task]{
	Adapter: locking.Adapter[source]{Name: "guardasynq", Grammar: taskrule.Grammar[*asynq.Task]{
		Kinds: map[string]keytemplate.Bind[source]{"task": bindTask, "header": bindHeader},
		Bare:  jsonfield.Bind(func(src source) []byte { return src.Task.Payload() }),
	}},
	Wait:       time.Second,
	Strategies: []string{"Retry", "Drop", "Archive"},
	Input:      func(src source) [][]byte { return [][]byte{[]byte(src.Task.Type()), src.Task.Payload()} },
}

func bindHeader(name string) (keytemplate.Extract[source], error) {
	return func(src source) (string, error) { return src.Task.Headers()[name], nil }, nil
}

func bindTask(name string) (keytemplate.Extract[source], error) {
	switch name {
	case "type":
		return func(src source) (string, error) { return src.Task.Type(), nil }, nil
	case "id":
		return fromContext(asynq.GetTaskID), nil
	case "queue":
		return fromContext(asynq.GetQueueName), nil
	}
	return nil, fmt.Errorf("%q is none of type, id, queue", name)
}

func fromContext(get func(context.Context) (string, bool)) keytemplate.Extract[source] {
	return func(src source) (string, error) {
		value, ok := get(src.Ctx)
		if !ok {
			return "", keytemplate.Unfit("the context is not that of a task on a server")
		}
		return value, nil
	}
}
