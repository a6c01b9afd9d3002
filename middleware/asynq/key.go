package guardasynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

// KeyFunc names what a task locks. It is called once for each try to lock, and from many
// goroutines at a time; ctx is that of the task, in which asynq.GetTaskID and the like
// find their values. Wrap asynq.SkipRetry in its error if the task will never have a key;
// see guard.JoinKey for how to put a key together.
type KeyFunc func(ctx context.Context, t *asynq.Task) (string, error)

// Key is the KeyFunc of a template, as the package comment describes it. It panics if
// the template is malformed; use ParseKey for templates that are not constants.
func Key(template string) KeyFunc {
	key, err := ParseKey(template)
	if err != nil {
		panic(err.Error())
	}
	return key
}

// ParseKey is Key, but for the error: it names the column (in bytes, from 1) at which
// the template is malformed. The errors of the KeyFunc are *guard.KeyError.
func ParseKey(template string) (KeyFunc, error) {
	parsed, err := keytemplate.Parse(template, placeholders)
	if err != nil {
		return nil, fmt.Errorf("guardasynq: %w", err)
	}
	return func(ctx context.Context, t *asynq.Task) (string, error) {
		key, err := parsed.Key(&source{ctx: ctx, task: t})
		if err != nil {
			return "", skipRetry(err)
		}
		return key, nil
	}, nil
}

// skipRetry lets asynq archive a task that will never have a key.
func skipRetry(err error) error {
	var bad *guard.KeyError
	if value := keytemplate.ValueErrorIn(err); value != nil && !value.Unfit && errors.As(err, &bad) {
		return &guard.KeyError{Reason: bad.Reason, Err: fmt.Errorf("%w: %w", bad.Err, asynq.SkipRetry)}
	}
	return err
}
