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

// JobFunc is a cron.Job that notices the loss of its lock: its context ends then, with a
// *guard.LostError as its cause. In the chain, Job must be the innermost wrapper. Without
// Job, the context does not end.
type JobFunc func(ctx context.Context)

// Run implements cron.Job.
func (j JobFunc) Run() { j(context.Background()) }

// Job is a cron.JobWrapper: a job that it wraps runs under the lock of key. Instances that
// find the lock busy skip the run, and with guard.MinHold in opts, the run of each tick is
// done once: see the package comment. Wrap each job with a Job of its own: jobs with the
// same key exclude each other.
//
// The lock is tried once, whatever the Guard's own Wait is; a guard.Wait in opts has runs
// wait for each other. A job that is skipped is no error, and observers of the Guard see it
// (see guard.Observe). Any other reason why a job did not run, such as Redis being down, and
// the loss of a lock under a job, go to cron.DefaultLogger, too. A panic of the job releases
// the lock and goes on.
//
// With a nil g, the one given to guard.SetDefault locks. Job panics if key is nil or one of
// opts is out of its bounds.
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
