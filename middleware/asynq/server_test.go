package guardasynq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestServer_ConfigureCountsOnlyWhatRan(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{Concurrency: 3})
	assert.Equal(t, 3, cfg.Concurrency)
	for _, row := range []struct {
		err      error
		failure  bool
		delay    time.Duration // at least, and less than twice that
		standard bool          // asynq's own delay
	}{
		{&guard.BusyError{RetryAfter: 3 * time.Second}, false, 3 * time.Second, false},
		{fmt.Errorf("own: %w", &guard.BusyError{}), false, time.Second, false},
		{&guard.StoreError{Err: errOwn}, false, time.Second, false},
		{guard.ErrClosed, false, time.Second, false},
		{&guard.LostError{Cause: guard.ErrClosed}, true, 0, true},
		{&guard.KeyError{Err: errOwn}, true, 0, true},
		{guard.ErrNoGuard, true, 0, true},
		{errOwn, true, 0, true},
	} {
		assert.Equal(t, row.failure, cfg.IsFailure(row.err), "%v", row.err)
		for range 20 {
			delay := cfg.RetryDelayFunc(0, row.err, task())
			if row.standard {
				assert.GreaterOrEqual(t, delay, 15*time.Second, "%v", row.err)
				continue
			}
			assert.GreaterOrEqual(t, delay, row.delay, "%v", row.err)
			assert.Less(t, delay, 2*row.delay, "%v", row.err)
		}
	}
	assert.False(t, cfg.IsFailure(nil))
}

func TestServer_ConfigureKeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, errOwn) },
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) * time.Hour },
	})
	assert.False(t, cfg.IsFailure(errOwn))
	assert.True(t, cfg.IsFailure(fmt.Errorf("another")))
	assert.False(t, cfg.IsFailure(guard.ErrClosed))
	assert.Equal(t, 2*time.Hour, cfg.RetryDelayFunc(2, errOwn, task()))
	assert.Less(t, cfg.RetryDelayFunc(2, guard.ErrBusy, task()), 2*time.Second)
}
