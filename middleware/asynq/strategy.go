package guardasynq

import (
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Strategy is what becomes of a task whose lock stayed busy for as long as it was waited
// for. See BusyStrategy.
type Strategy int

const (
	// Retry has the task run again later, and is the default. Given Configure, that
	// uses up no retry. A task that has none left waits for its lock until shortly
	// before its deadline.
	Retry Strategy = iota

	// SkipRun drops the task, for work that its lock's holder does anyway: the error
	// wraps asynq.RevokeTask. Asynq deletes the task, in spite of asynq.Retention.
	SkipRun

	// Archive gives the task up, for work that must not be late: the error wraps
	// asynq.SkipRetry. Asynq archives the task, where it can be inspected and run.
	Archive
)

// BusyStrategy sets what becomes of a task whose lock stayed busy. What else keeps a
// handler from running, as Redis down, a closed Guard or the end of the task's context,
// has the task run again later in any case. Given more than once, the last one counts.
func BusyStrategy(s Strategy) Option {
	return option(func(c *config) { c.strategy = s })
}

func (s Strategy) check() error {
	if s < Retry || s > Archive {
		return fmt.Errorf("BusyStrategy %d is none of Retry, SkipRun, Archive", int(s))
	}
	return nil
}

// settles says whether the task of err is not to run again.
func (s Strategy) settles(err error) bool {
	var busy *guard.BusyError
	_, passes := locking.RetryAfter(err)
	return s != Retry && passes && errors.As(err, &busy) && busy.Err == nil
}

// decide gives err the meaning for asynq that the strategy wants.
func (s Strategy) decide(err error) error {
	switch {
	case !s.settles(err):
		return err
	case s == SkipRun:
		return fmt.Errorf("%w: %w", err, asynq.RevokeTask)
	}
	return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
}
