package guardasynq

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

// Middleware runs handlers under the locks of rule. With a nil g, the Guard in the task's
// context (see asynq.Config.BaseContext) locks, or else the one given to guard.SetDefault. The
// lock's Name is the type of the task if the rule sets none, and its Wait is 1 second if
// neither the rule nor the Guard set one. It panics if rule has no key or an option is out of its
// bounds.
func Middleware(g *guard.Guard, rule Rule) asynq.MiddlewareFunc {
	l := adapter.Must(g, rule.rule)
	// Asynq calls this for every task: it must be nothing but a closure.
	return handlers(func(ctx context.Context, t *asynq.Task, next asynq.Handler) error {
		return process(ctx, l, t.Type(), t, next)
	})
}

// Tasks says which tasks are locked, and how. A row applies to the types that begin with
// its pattern, and the longest such pattern wins, as with the patterns of asynq.ServeMux.
type Tasks map[string]Rule

// Annotate is Middleware with a table. A task that no row applies to reaches its handler
// untouched, and a row that no task has locks nothing: see Check. The lock's Name is the row's
// pattern. For a type without a lock below a pattern with one, give it a row that always skips.
// It panics if a pattern is blank, a row has no key or an option is out of its bounds.
func Annotate(g *guard.Guard, tasks Tasks) asynq.MiddlewareFunc {
	rows := taskrule.Table(&adapter, g, tasks, func(r Rule) taskrule.Rule[*asynq.Task] { return r.rule })
	patterns := longestFirst(tasks)
	return handlers(func(ctx context.Context, t *asynq.Task, next asynq.Handler) error {
		if pattern, ok := match(patterns, t.Type()); ok {
			return process(ctx, rows[pattern], pattern, t, next)
		}
		return next.ProcessTask(ctx, t)
	})
}

// Check says which rows lock nothing, as no task of the given types has one of them as its row:
// its error names each. Call it before the server starts, or in a test.
func Check(types []string, tasks Tasks) error {
	patterns, used := longestFirst(tasks), map[string]bool{}
	for _, kind := range types {
		pattern, _ := match(patterns, kind)
		used[pattern] = true // no row is ""
	}
	return taskrule.CheckRows(&adapter, tasks, func(pattern string) bool { return used[pattern] }, "no task of the given types has it")
}

func longestFirst(tasks Tasks) []string {
	return slices.SortedFunc(maps.Keys(tasks), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
}

// match gives the pattern for a type of task.
func match(patterns []string, kind string) (pattern string, ok bool) {
	i := slices.IndexFunc(patterns, func(pattern string) bool { return strings.HasPrefix(kind, pattern) })
	if i < 0 {
		return "", false
	}
	return patterns[i], true
}

func handlers(process func(ctx context.Context, t *asynq.Task, next asynq.Handler) error) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		if f, ok := next.(asynq.HandlerFunc); next == nil || ok && f == nil {
			panic("guardasynq: no handler")
		}
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return process(ctx, t, next) })
	}
}
