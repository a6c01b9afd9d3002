package guardasynq

import (
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// Rule says how tasks are locked. Lock and LockFunc make a Rule, for guardriver and guardwatermill, too. Its methods return a
// changed copy:
//
//	And(template string)                               // one key more: all, 64 at most, are locked or none
//	Once(keep time.Duration, opts ...guard.OnceOption) // a task of the key runs once, until keep has passed
//	OnBusy(s Strategy)                                 // Retry (default), Drop or GiveUp, if the lock stays busy
//	Unlocked(func(context.Context, Task) bool)         // no lock for tasks for which it returns true
//	OnError(func(context.Context, Task, error) error)  // replaces guard's errors
type Rule = tasklock.Rule

// Task is a task for the functions of a Rule: Kind, ID, Queue, Payload, Header(name), and the *asynq.Task as Native.
type Task = tasklock.Task

// KeyFunc returns the key of a task: func(context.Context, Task) (string, error). guard.JoinKey makes keys. A KeyFunc is called
// once for each try to lock, from many goroutines. Wrap asynq.SkipRetry in its error if the task will never have a key.
type KeyFunc = tasklock.KeyFunc

// Strategy says how a task ends whose lock stayed busy until the wait was over.
type Strategy = tasklock.Strategy

// The strategies of Rule.OnBusy. After other errors, such as Redis being down, the task runs again later in any case. Asynq
// deletes a dropped task (asynq.RevokeTask), in spite of asynq.Retention.
const (
	Retry  = tasklock.Retry  // runs the task again later: the default
	Drop   = tasklock.Drop   // drops the task, for work that the lock's holder does anyway
	GiveUp = tasklock.GiveUp // archives the task (asynq.SkipRetry), for work that must not be late
)

var adapter = tasklock.New("guardasynq", time.Second)

// Lock is the Rule of a key template (see Keys). opts are guard.TTL, guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return adapter.Lock(template, opts) }

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return adapter.LockFunc(key, opts) }

// ParseKey is the KeyFunc of a template that is not a constant. Its error names the column of a fault, in bytes from 1. The
// KeyFunc's errors are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) { return adapter.ParseKey(template) }

// Middleware runs handlers under the locks of rule. A nil g stands for the Guard in the task's context (see
// asynq.Config.BaseContext), or else that of guard.SetDefault. The lock's Name is the type of the task if the rule sets none, and its
// Wait is 1 second if neither the rule nor the Guard set one. It panics if rule has no key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) asynq.MiddlewareFunc {
	l := adapter.Must(g, rule)
	return handlers(func(t *asynq.Task) (*tasklock.Locker, string) { return l, t.Type() })
}

// Tasks has a Rule for each pattern. As in asynq.ServeMux, the longest pattern with which the task's type begins wins.
type Tasks map[string]Rule

// Annotate is Middleware with a table. A task without a row reaches its handler untouched; Check finds rows without a task. The
// lock's Name is the row's pattern. To exempt a type below a pattern, give it a row that is always Unlocked. Annotate panics if
// a pattern is blank, a row has no key or an option is out of its bounds.
func Annotate(g *guard.Guard, tasks Tasks) asynq.MiddlewareFunc {
	rows := adapter.Table(g, tasks)
	return handlers(func(t *asynq.Task) (*tasklock.Locker, string) {
		pattern := match(rows, t.Type())
		return rows[pattern], pattern
	})
}

// Check returns an error that names each row that applies to none of types. Call it before the server starts, or in a test.
func Check(types []string, tasks Tasks) error {
	used := map[string]bool{}
	for _, kind := range types {
		used[match(tasks, kind)] = true
	}
	return adapter.CheckRows(tasks, func(pattern string) bool { return used[pattern] }, "no task of the given types has it")
}

// match returns the longest pattern with which kind begins, or "", which is no row.
func match[R any](rows map[string]R, kind string) (longest string) {
	for pattern := range rows {
		if len(pattern) > len(longest) && strings.HasPrefix(kind, pattern) {
			longest = pattern
		}
	}
	return longest
}
