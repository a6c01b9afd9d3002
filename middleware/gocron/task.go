package guardgocron

import (
	"context"
	"slices"

	"github.com/redlatch/redlatch/guard"
)

// Task makes a function for gocron.NewTask that runs fn under the lock of key:
//
//	gocron.NewTask(guardgocron.Task(g, guard.Key("report"), report, guard.MinHold(50*time.Second)))
//
// fn's context ends when the lock is lost, with a *guard.LostError as its cause, and when
// gocron ends the job. The error is that of guard.WithLock: fn's own error, or why fn did not
// run. Gocron hands it to gocron.AfterJobRunsWithError. There, errors.Is(err, guard.ErrBusy)
// distinguishes a run that was skipped, because another instance runs the job or ran it,
// from a run that failed.
//
// Task tries the lock once, whatever the Guard's own Wait is; guard.Wait in opts changes
// that. A nil g stands for the Guard in the job's context (gocron.WithContext), or else that
// of guard.SetDefault. Do not use Task below a Locker: one lock is enough.
//
// Task panics if key or fn is nil, or if one of opts is out of its bounds.
func Task(g *guard.Guard, key guard.KeyFunc, fn func(ctx context.Context) error, opts ...guard.LockOption) func(ctx context.Context) error {
	switch {
	case key == nil:
		panic("guardgocron: no KeyFunc")
	case fn == nil:
		panic("guardgocron: no function")
	}
	mustCheck(opts)
	opts = slices.Concat([]guard.LockOption{guard.NoWait()}, opts)
	return func(ctx context.Context) error {
		if g == nil {
			return guard.WithLock(ctx, key, fn, opts...)
		}
		return g.WithLock(ctx, key, fn, opts...)
	}
}
