package guardasynq

import (
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

// Configure sets what the middleware needs of a server: IsFailure and RetryDelayFunc,
// each wrapped around the one that cfg has. It leaves everything else as it is.
func Configure(cfg asynq.Config) asynq.Config {
	cfg.IsFailure = IsFailure(cfg.IsFailure)
	cfg.RetryDelayFunc = RetryDelay(cfg.RetryDelayFunc)
	return cfg
}

// IsFailure is an asynq.Config.IsFailure that does not count what kept a task from
// running: a lock that is busy, one of the handler's own included, Redis down, a closed Guard. A
// lost lock counts. All else is up to next, or an error if next is nil.
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

// RetryDelay is an asynq.RetryDelayFunc for the errors that IsFailure does not count: it
// returns when the lock is worth another try, at least a second from now, plus up to as
// much again at random, so that tasks do not come back all at once. All else is up to
// next, or asynq.DefaultRetryDelayFunc if next is nil.
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
