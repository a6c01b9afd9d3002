package guardasynq

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Configure returns cfg for a server with the middleware: IsFailure and RetryDelayFunc, each around the function of cfg.
func Configure(cfg asynq.Config) asynq.Config {
	cfg.IsFailure = IsFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = RetryDelay(cfg.RetryDelayFunc)
	return cfg
}

// IsFailure is an asynq.Config.IsFailure that does not count a busy lock (also one that the handler wanted), Redis being down and
// a closed Guard. A lost lock counts. next decides about other errors; all of them count if it is nil.
func IsFailure(next func(error) bool) func(error) bool {
	if next == nil {
		next = func(err error) bool { return err != nil }
	}
	return func(err error) bool {
		_, passes := locking.RetryAfter(err)
		return !passes && next(err)
	}
}

// RetryDelay is an asynq.RetryDelayFunc for the errors that IsFailure does not count: it returns the time until the lock should
// be free, a second or more, plus up to as much again at random, so that tasks do not come back all at once. next, or
// asynq.DefaultRetryDelayFunc if next is nil, decides about other errors.
func RetryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, t *asynq.Task) time.Duration {
		if delay, passes := locking.RetryAfter(err); passes {
			return delay + rand.N(delay)
		}
		return next(n, err, t)
	}
}

// Schedule runs an asynq.Scheduler on one of all instances that call it with the same key, so that each entry is enqueued once
// per tick. When that instance ends, dies or loses its lock, the next instance runs a Scheduler: after a crash, within the ttl.
// Ticks between the two are lost. If clocks differ, a change of instances may enqueue a tick twice: asynq.Unique prevents that.
//
// make is called at the start of each term: it makes a new Scheduler and registers its entries. Schedule starts it, and shuts it
// down before another instance can lead. Do not call its Run.
//
// Schedule ends with ctx and returns its error, after the Scheduler was shut down and the lock released. It also returns an error
// of make or of Scheduler.Start, and those of guard.Guard.Lead. Redis being down does not end it. A nil g stands for the Guard
// in ctx, or else that of guard.SetDefault. End ctx before you shut down the Guard.
func Schedule(ctx context.Context, g *guard.Guard, key guard.KeyFunc, make func() (*asynq.Scheduler, error), opts ...guard.LockOption) error {
	return runOne(ctx, g, key, make, opts)
}

// SchedulePeriodic is Schedule for an asynq.PeriodicTaskManager. An error of its config provider ends SchedulePeriodic.
func SchedulePeriodic(ctx context.Context, g *guard.Guard, key guard.KeyFunc, make func() (*asynq.PeriodicTaskManager, error), opts ...guard.LockOption) error {
	return runOne(ctx, g, key, make, opts)
}

// scheduler is what Scheduler and PeriodicTaskManager have in common.
type scheduler interface {
	comparable
	Start() error
	Shutdown()
}

func runOne[S scheduler](ctx context.Context, g *guard.Guard, key guard.KeyFunc, create func() (S, error), opts []guard.LockOption) error {
	if create == nil {
		return &guard.OptionError{Option: "make", Reason: "is nil"}
	}
	if g == nil {
		g = guardhook.GuardFor(ctx).(*guard.Guard) //nolint:forcetypeassert // it returns nothing else
	}
	return g.Lead(ctx, key, func(ctx context.Context) error {
		s, err := create()
		var none S
		if err == nil && s == none {
			err = &guard.OptionError{Option: "make", Reason: "returned nil"}
		}
		if err == nil {
			err = s.Start()
		}
		if err != nil {
			return err
		}
		defer s.Shutdown()
		<-ctx.Done()
		return nil
	}, opts...)
}
