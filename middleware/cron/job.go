package guardcron

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/robfig/cron/v3"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// JobFunc is a cron.Job whose context ends when its lock is lost, with a *guard.LostError as
// its cause. Job must be the innermost wrapper in the chain. Without Job, the context does
// not end.
type JobFunc func(ctx context.Context)

// Run implements cron.Job.
func (j JobFunc) Run() { j(context.Background()) }

// Job is a cron.JobWrapper that runs a job under the lock of key. An instance that finds the
// lock busy skips the run. With guard.MinHold in opts, each tick runs once: see the package
// comment. Wrap each job with a Job of its own: jobs with the same key exclude each other.
//
// Job tries the lock once, whatever the Guard's own Wait is; with guard.Wait in opts, runs
// wait for each other. A skipped run is no error; observers of the Guard are notified of it
// (see guard.Observe). Other errors, such as Redis being down or a lock that was lost under
// its job, also go to cron.DefaultLogger. If the job panics, the lock is released, and the
// panic continues.
//
// A nil g stands for the Guard of guard.SetDefault. Job panics if key is nil or one of opts
// is out of its bounds.
func Job(g *guard.Guard, key guard.KeyFunc, opts ...guard.LockOption) cron.JobWrapper {
	if key == nil {
		panic("guardcron: no KeyFunc")
	}
	if err := guardhook.CheckOptions(opts); err != nil {
		panic(fmt.Sprintf("guardcron: %v", err))
	}
	opts = slices.Concat([]guard.LockOption{guard.NoWait()}, opts)
	withLock := guard.WithLock
	if g != nil {
		withLock = g.WithLock
	}
	return func(job cron.Job) cron.Job {
		run := func(ctx context.Context) error {
			if j, ok := job.(JobFunc); ok {
				j(ctx)
			} else {
				job.Run()
			}
			return nil
		}
		return cron.FuncJob(func() {
			err := withLock(context.Background(), key, run, opts...)
			switch {
			case err == nil, errors.Is(err, guard.ErrBusy):
			case errors.Is(err, guard.ErrLost):
				cron.DefaultLogger.Error(err, "the lock was lost under the job")
			default:
				cron.DefaultLogger.Error(err, "the job did not run")
			}
		})
	}
}
