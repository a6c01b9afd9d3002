package guardriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/taskrule"
)

// Middleware works jobs under the locks of rule. With a nil g, the Guard in the job's context
// locks, or else the one given to guard.SetDefault. The lock's Name is the kind of the job if the
// rule sets none, and its Wait is 1 second if neither the rule nor the Guard set one. It panics if
// rule has no key or an option is out of its bounds. In the method Middleware of a worker, make it
// once, and not for every job.
func Middleware(g *guard.Guard, rule Rule) rivertype.WorkerMiddleware {
	l := adapter.Must(g, rule.rule)
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		return process(ctx, l, job, work)
	})
}

// Jobs says which jobs are locked, and how, by their kinds. A kind's alias (see
// river.JobArgsWithKindAliases) is a kind of its own, and has a row of its own.
type Jobs map[string]Rule

// Annotate is Middleware with a table. A job that has no row reaches its worker untouched, and a row
// that no job has locks nothing: see Check. It panics if a kind is blank, a row has no key or an
// option is out of its bounds.
func Annotate(g *guard.Guard, jobs Jobs) rivertype.WorkerMiddleware {
	rows := taskrule.Table(&adapter, g, jobs, func(r Rule) taskrule.Rule[*rivertype.JobRow] { return r.rule })
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		if l := rows[job.Kind]; l != nil {
			return process(ctx, l, job, work)
		}
		return work(ctx)
	})
}

// Check says which rows lock nothing, as no job is of their kind, and which kinds have a row while
// an alias of theirs has none: its error names each. args has one of each type of job's arguments
// that there is. Call it before the client starts, or in a test.
func Check(args []river.JobArgs, jobs Jobs) error {
	kinds := map[string]bool{}
	var unlocked []error
	for _, arg := range args {
		kind := arg.Kind()
		kinds[kind] = true
		_, locked := jobs[kind]
		renamed, ok := arg.(river.JobArgsWithKindAliases)
		if !ok {
			continue
		}
		for _, alias := range renamed.KindAliases() {
			kinds[alias] = true
			if _, too := jobs[alias]; locked && !too {
				unlocked = append(unlocked, fmt.Errorf("guardriver: row %q: its jobs of the alias %q have no row", kind, alias))
			}
		}
	}
	rows := taskrule.CheckRows(&adapter, jobs, func(kind string) bool { return kinds[kind] }, "no job of the given arguments is of this kind")
	return errors.Join(append(unlocked, rows)...)
}

func process(ctx context.Context, l *taskrule.Locker[*rivertype.JobRow], job *rivertype.JobRow, work func(context.Context) error) error {
	run := func(ctx context.Context) error { return snoozed(work(ctx)) }
	return l.Process(ctx, job, run, func(ctx context.Context) (own, err error) {
		return l.Run(ctx, job.Kind, job, run)
	}, Strategy(l.Strategy()).settle)
}
