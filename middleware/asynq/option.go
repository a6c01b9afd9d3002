package guardasynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Option configures Middleware and Annotate. A nil Option is ignored.
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

const defaultWait = time.Second

type config struct {
	policy   locking.Policy
	key      KeyFunc
	and      []KeyFunc // further keys
	strategy Strategy
	skip     []func(context.Context, *asynq.Task) bool
	onError  func(context.Context, *asynq.Task, error) error
}

func newConfig(g *guard.Guard, key KeyFunc, opts []Option) (*config, error) {
	c := &config{
		policy:  locking.Policy{Guard: g, DefaultWait: defaultWait},
		key:     key,
		onError: func(_ context.Context, _ *asynq.Task, err error) error { return err },
	}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(c)
		}
	}
	if key == nil {
		return nil, errors.New("no KeyFunc")
	}
	further := locking.CheckFurther(len(c.and), func(i int) bool { return c.and[i] == nil })
	return c, errors.Join(c.policy.Check(), c.strategy.check(), further)
}

// With sets options of the lock itself: guard.TTL, guard.Wait, guard.Name, and so on.
// Given more than once, the options add up and later ones win.
func With(opts ...guard.LockOption) Option {
	return option(func(c *config) { c.policy.Options = append(c.policy.Options, opts...) })
}

// And adds keys that a task locks as well: all of them or none, as guard.WithLocks does, in an
// order that does not depend on how they are given, and within one Wait. Given more than
// once, the keys add up. A nil key, or more than 64 keys in all, are out of bounds.
func And(keys ...KeyFunc) Option {
	return option(func(c *config) { c.and = append(c.and, keys...) })
}

// Skip lets tasks run without a lock: those for which skip returns true. Their context
// carries the Guard all the same. Given more than once, one true is enough. A nil skip is
// ignored.
func Skip(skip func(ctx context.Context, t *asynq.Task) bool) Option {
	return option(func(c *config) {
		if skip != nil {
			c.skip = append(c.skip, skip)
		}
	})
}

// OnError turns guard's errors into what asynq gets to see, after BusyStrategy; nil lets
// the task count as done. It is not called for the handler's own errors. Given more than
// once, the last one counts. A nil handle is ignored.
func OnError(handle func(ctx context.Context, t *asynq.Task, err error) error) Option {
	return option(func(c *config) {
		if handle != nil {
			c.onError = handle
		}
	})
}
