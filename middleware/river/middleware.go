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
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// Rule says how jobs are locked. Lock and LockFunc make a Rule, for guardasynq and guardwatermill, too. Its methods return a
// changed copy:
//
//	And(template string)                               // one key more: all, 64 at most, are locked or none
//	Once(keep time.Duration, opts ...guard.OnceOption) // a job of the key runs once, until keep has passed
//	OnBusy(s Strategy)                                 // Retry (default), Drop or GiveUp, if the lock stays busy
//	Unlocked(func(context.Context, Task) bool)         // no lock for jobs for which it returns true
//	OnError(func(context.Context, Task, error) error)  // replaces guard's errors
type Rule = tasklock.Rule

// Task is a job for the functions of a Rule: Kind, ID, Queue, Payload (its arguments), Header(name) (a field of its metadata),
// and the *rivertype.JobRow as Native.
type Task = tasklock.Task

// KeyFunc returns the key of a job: func(context.Context, Task) (string, error). guard.JoinKey makes keys. A KeyFunc is called
// once for each run, from many goroutines. Its error uses up an attempt; return a river.JobCancel if the job will never have a key.
type KeyFunc = tasklock.KeyFunc

// Strategy says how a job ends whose lock stayed busy until the wait was over.
type Strategy = tasklock.Strategy

// The strategies of Rule.OnBusy. After other errors, such as Redis being down, the job is snoozed in any case.
const (
	Retry  = tasklock.Retry  // snoozes the job: the default
	Drop   = tasklock.Drop   // completes the job without running it, for work that the lock's holder does anyway; no OnError
	GiveUp = tasklock.GiveUp // cancels the job, for work that must not be late
)

var adapter = tasklock.New("guardriver", time.Second)

// Lock is the Rule of a key template (see Keys). opts are guard.TTL, guard.Limit and so on. It panics if the template is malformed.
func Lock(template string, opts ...guard.LockOption) Rule { return adapter.Lock(template, opts) }

// LockFunc is the Rule of a KeyFunc.
func LockFunc(key KeyFunc, opts ...guard.LockOption) Rule { return adapter.LockFunc(key, opts) }

// Middleware works jobs under the locks of rule. A nil g stands for the Guard in the job's context, or else that of
// guard.SetDefault. The lock's Name is the kind of the job if the rule sets none, and its Wait is 1 second if neither the rule nor the
// Guard set one. It panics if rule has no key or an option is out of its bounds. A worker's method Middleware should return the
// same value each time: do not make it anew for every job.
func Middleware(g *guard.Guard, rule Rule) rivertype.WorkerMiddleware {
	l := adapter.Must(g, rule)
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		return process(ctx, l, job, work)
	})
}

// Jobs has a Rule for each kind of job. An alias of a kind (see river.JobArgsWithKindAliases) needs a row of its own.
type Jobs map[string]Rule

// Annotate is Middleware with a table. A job without a row reaches its worker untouched; Check finds rows without a job. It
// panics if a kind is blank, a row has no key or an option is out of its bounds.
func Annotate(g *guard.Guard, jobs Jobs) rivertype.WorkerMiddleware {
	rows := adapter.Table(g, jobs)
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		if l := rows[job.Kind]; l != nil {
			return process(ctx, l, job, work)
		}
		return work(ctx)
	})
}

// Check returns an error that names each row without a job of its kind, and each alias without a row whose kind has one. args has
// a value of each type of job arguments. Call it before the client starts, or in a test.
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
	rows := adapter.CheckRows(jobs, func(kind string) bool { return kinds[kind] }, "no job of the given arguments is of this kind")
	return errors.Join(append(unlocked, rows)...)
}

func process(ctx context.Context, l *tasklock.Locker, job *rivertype.JobRow, work func(context.Context) error) error {
	return l.Process(ctx, &tasklock.Work{
		Task: Task{
			Kind: job.Kind, ID: strconv.FormatInt(job.ID, 10), Queue: job.Queue, Payload: job.EncodedArgs, Native: job,
			Header: func(name string) string { return tasklock.Field(job.Metadata, name) },
		},
		Name: job.Kind,
		Do:   func(ctx context.Context) error { return snoozed(work(ctx)) },
	}, l.Run, settle)
}

// settle marks err for River as the strategy says.
func settle(s Strategy, err error) error {
	switch s {
	case Drop:
		return nil
	case GiveUp:
		return river.JobCancel(err)
	}
	return snoozed(err)
}

// snoozed has River snooze the job if the reason for err passes.
func snoozed(err error) error {
	delay, passes := locking.RetryAfter(err)
	if !passes || errors.Is(err, &river.JobCancelError{}) {
		return err
	}
	// At random, so that jobs do not come back all at once. A snooze in err takes precedence.
	return fmt.Errorf("%w: %w", err, river.JobSnooze(delay+rand.N(delay)))
}
