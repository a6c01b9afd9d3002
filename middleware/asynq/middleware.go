package guardasynq

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// Rule says how tasks are locked: the argument of Middleware, and a row of Tasks. Lock and LockFunc make one. It is the Rule of
// guardriver and guardwatermill, too. Its methods return a changed copy:
//
//	And(template string)                               // one key more: all, 64 at most, are locked or none
//	Once(keep time.Duration, opts ...guard.OnceOption) // a task of the key runs once, until keep has passed
//	OnBusy(s Strategy)                                 // Retry (default), Drop or GiveUp, if the lock stays busy
//	Unlocked(func(context.Context, Task) bool)         // no lock for tasks for which it returns true
//	OnError(func(context.Context, Task, error) error)  // replaces guard's errors
type Rule = tasklock.Rule

// Task is what the functions of a Rule see of a task: Kind, ID, Queue, Payload, Header(name), and the *asynq.Task as Native.
type Task = tasklock.Task

// KeyFunc names what a task locks, by guard.JoinKey for example: func(context.Context, Task) (string, error). It is called once
// for each try to lock, and from many goroutines at a time. Wrap asynq.SkipRetry in its error if the task will never have a key.
type KeyFunc = tasklock.KeyFunc

// Strategy is what becomes of a task whose lock stayed busy for as long as it was waited for.
type Strategy = tasklock.Strategy

// The strategies of Rule.OnBusy. What else keeps a handler from running, such as Redis being down, has the task run again later
// in any case. Asynq deletes what Drop ends (asynq.RevokeTask), in spite of asynq.Retention.
const (
	Retry  = tasklock.Retry  // has the task run again later: the default
	Drop   = tasklock.Drop   // drops the task, for work that its lock's holder does anyway
	GiveUp = tasklock.GiveUp // archives the task (asynq.SkipRetry), for work that must not be late
)

var adapter = tasklock.New("guardasynq", time.Second)

// Lock is the Rule of a key template, as the package comment describes it. opts are those of the lock itself: guard.TTL,
// guard.Wait and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return adapter.Lock(template, opts) }

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return adapter.LockFunc(key, opts) }

// ParseKey is the KeyFunc of a template that is not a constant. Its error names the column (in bytes, from 1) at which the
// template is malformed. The KeyFunc's errors are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) { return adapter.ParseKey(template) }

// Middleware runs handlers under the locks of rule. With a nil g, the Guard in the task's context (see asynq.Config.BaseContext)
// locks, or else the one given to guard.SetDefault. The lock's Name is the type of the task if the rule sets none, and its Wait
// is 1 second if neither the rule nor the Guard set one. It panics if rule has no key or an option is out of its bounds.
func Middleware(g *guard.Guard, rule Rule) asynq.MiddlewareFunc {
	l := adapter.Must(g, rule)
	return handlers(func(t *asynq.Task) (*tasklock.Locker, string) { return l, t.Type() })
}

// Tasks says which tasks are locked, and how. A row applies to the types that begin with its pattern, and the longest such
// pattern wins, as with the patterns of asynq.ServeMux.
type Tasks map[string]Rule

// Annotate is Middleware with a table. A task that no row applies to reaches its handler untouched, and a row that no task has
// locks nothing: see Check. The lock's Name is the row's pattern. For a type without a lock below a pattern with one, give it a
// row that is always Unlocked. It panics if a pattern is blank, a row has no key or an option is out of its bounds.
func Annotate(g *guard.Guard, tasks Tasks) asynq.MiddlewareFunc {
	rows, patterns := adapter.Table(g, tasks), longestFirst(tasks)
	return handlers(func(t *asynq.Task) (*tasklock.Locker, string) {
		pattern := match(patterns, t.Type())
		return rows[pattern], pattern
	})
}

// Check returns which rows lock nothing, as no task of the given types has one of them as its row: its error names each. Call it
// before the server starts, or in a test.
func Check(types []string, tasks Tasks) error {
	patterns, used := longestFirst(tasks), map[string]bool{}
	for _, kind := range types {
		used[match(patterns, kind)] = true
	}
	return adapter.CheckRows(tasks, func(pattern string) bool { return used[pattern] }, "no task of the given types has it")
}

func longestFirst(tasks Tasks) []string {
	return slices.SortedFunc(maps.Keys(tasks), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// match returns the pattern for a type of task, or "", which is no row.
func match(patterns []string, kind string) string {
	for _, pattern := range patterns {
		if strings.HasPrefix(kind, pattern) {
			return pattern
		}
	}
	return ""
}
