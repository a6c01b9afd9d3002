package guardasynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
)

// Tasks says which tasks are locked, and how. A row applies to the types that begin with
// its pattern, and the longest such pattern wins, as with the patterns of asynq.ServeMux.
type Tasks map[string]Rule

// Annotate is Middleware with a table: each task is locked by the rule of its row, and a
// task that no row applies to reaches its handler untouched. The lock's Name is the row's
// pattern if With sets none. opts apply to every row, and the row's own options behind
// them.
//
// Only the table's patterns count, not those that handlers are registered for: to have a
// type without a lock below a pattern with one, give it a row that always skips. A row that
// no task has locks nothing: see Check.
//
// It panics if a pattern is blank, a row has no Key or an option is out of its bounds.
// Later changes of the map have no effect.
func Annotate(g *guard.Guard, tasks Tasks, opts ...Option) asynq.MiddlewareFunc {
	rows, err := newRows(g, tasks, opts)
	if err != nil {
		panic("guardasynq: " + err.Error())
	}
	return func(next asynq.Handler) asynq.Handler {
		refuseNil(next)
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			if row := rows.match(t.Type()); row != nil {
				return row.process(ctx, t, row.pattern, next)
			}
			return next.ProcessTask(ctx, t)
		})
	}
}

// rows are sorted by their patterns, the longest first.
type rows []row

type row struct {
	*config
	pattern string
}

func newRows(g *guard.Guard, tasks Tasks, opts []Option) (rows, error) {
	var all rows
	for _, pattern := range slices.Sorted(maps.Keys(tasks)) {
		rule := tasks[pattern]
		c, err := newConfig(g, rule.Key, slices.Concat(opts, rule.Options))
		if err := cmp.Or(checkPattern(pattern), err); err != nil {
			return nil, fmt.Errorf("row %q: %w", pattern, err)
		}
		all = append(all, row{c, pattern})
	}
	all.sort()
	return all, nil
}

func checkPattern(pattern string) error {
	if strings.TrimSpace(pattern) == "" {
		return errors.New("the pattern is blank")
	}
	return nil
}

func (rs rows) sort() {
	slices.SortStableFunc(rs, func(a, b row) int { return cmp.Compare(len(b.pattern), len(a.pattern)) })
}

// match gives the row for a type of task, nil if there is none.
func (rs rows) match(kind string) *row {
	for i := range rs {
		if strings.HasPrefix(kind, rs[i].pattern) {
			return &rs[i]
		}
	}
	return nil
}
