package guardasynq

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// Schedule runs an asynq.Scheduler on one of all instances that call it with the same key,
// so that each of its entries is enqueued once per tick. When that instance ends, dies or
// loses its lock, the next one runs a scheduler of its own: after a crash, within the ttl.
// Ticks that fall between the two are not made up for. Clocks that differ may enqueue a tick
// twice at a change of instances: where that does harm, give the entry asynq.Unique.
//
// make is called at the start of each term: it makes a new Scheduler and registers its entries.
// Schedule starts it, and shuts it down before another instance can lead. Do not call its Run.
//
// It returns when ctx ends, with the error of ctx, after the Scheduler was shut down and the
// lock released. An error of make or of Scheduler.Start ends it, too, as do a nil make and
// what ends guard.Guard.Lead. Redis being down does not. With a nil g, the Guard in ctx is used,
// else the one given to guard.SetDefault. End ctx before you shut down the Guard.
func Schedule(ctx context.Context, g *guard.Guard, key guard.KeyFunc, make func() (*asynq.Scheduler, error), opts ...guard.LockOption) error {
	return runOne(ctx, g, key, make, opts)
}

// SchedulePeriodic is Schedule for an asynq.PeriodicTaskManager. Its Start asks the config
// provider, whose error ends SchedulePeriodic.
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
		if err != nil {
			return err
		}
		var none S
		if s == none {
			return &guard.OptionError{Option: "make", Reason: "returned nil"}
		}
		if err := s.Start(); err != nil {
			return err
		}
		defer s.Shutdown()
		<-ctx.Done()
		return nil
	}, opts...)
}
