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

// Configure sets what the middleware needs of a server: IsFailure and RetryDelayFunc, each wrapped around the one that cfg has.
func Configure(cfg asynq.Config) asynq.Config {
	cfg.IsFailure = IsFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = RetryDelay(cfg.RetryDelayFunc)
	return cfg
}

// IsFailure is an asynq.Config.IsFailure that does not count what kept a task from running: a lock that is busy, one of the
// handler's own included, Redis down, a closed Guard. A lost lock counts. All else is up to next, or an error if next is nil.
func IsFailure(next func(error) bool) func(error) bool {
	return func(err error) bool {
		if _, passes := locking.RetryAfter(err); passes {
			return false
		}
		if next == nil {
			return err != nil
		}
		return next(err)
	}
}

// RetryDelay is an asynq.RetryDelayFunc for the errors that IsFailure does not count: it returns when the lock is worth another
// try, at least a second from now, plus up to as much again at random, so that tasks do not come back all at once. All else is
// up to next, or asynq.DefaultRetryDelayFunc if next is nil.
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

// Schedule runs an asynq.Scheduler on one of all instances that call it with the same key, so that each of its entries is
// enqueued once per tick. When that instance ends, dies or loses its lock, the next one runs a scheduler of its own: after a
// crash, within the ttl. Ticks that fall between the two are not made up for. Clocks that differ may enqueue a tick twice at a
// change of instances: where that does harm, give the entry asynq.Unique.
//
// make is called at the start of each term: it makes a new Scheduler and registers its entries. Schedule starts it, and shuts it
// down before another instance can lead. Do not call its Run.
//
// Schedule returns when ctx ends, with the error of ctx, after the Scheduler was shut down and the lock released. An error of make
// or of Scheduler.Start ends it, too, as do a nil make and what ends guard.Guard.Lead. Redis being down does not. With a nil g, it
// uses the Guard in ctx, else the one given to guard.SetDefault. End ctx before you shut down the Guard.
func Schedule(ctx context.Context, g *guard.Guard, key guard.KeyFunc, make func() (*asynq.Scheduler, error), opts ...guard.LockOption) error {
	return runOne(ctx, g, key, make, opts)
}

// SchedulePeriodic is Schedule for an asynq.PeriodicTaskManager. Its Start asks the config provider, whose error ends
// SchedulePeriodic.
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
