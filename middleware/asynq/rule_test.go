package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// A task has the lock of the pattern that asynq's mux picks.
func TestAnnotate_PicksWhatServeMuxPicks(t *testing.T) {
	t.Parallel()
	recorder, mux := &guardtest.Recorder{}, asynq.NewServeMux()
	tasks := guardasynq.Tasks{
		"order:":        guardasynq.Lock("order:{id}"),
		"order:charge":  guardasynq.Lock("charge:{id}"),
		"order:free":    guardasynq.Lock("free").Unlocked(func(context.Context, guardasynq.Task) bool { return true }),
		"order:refund:": guardasynq.LockFunc(func(_ context.Context, t guardasynq.Task) (string, error) { return t.Kind, nil }),
	}
	for pattern := range tasks {
		mux.HandleFunc(pattern, succeed)
	}
	mw := guardasynq.Annotate(guardtest.NewMemoryGuard(t, guard.Observe(recorder)), tasks)
	clear(tasks)
	var want, got []guard.Lock
	for kind, key := range map[string]string{
		"order:pay": "order:7", "order:charge:now": "charge:7", "order:refund:x": "order:refund:x",
		"order:free": "", "order": "", "Order:pay": "", // no lock
	} {
		task := asynq.NewTask(kind, []byte(`{"id":7}`))
		assert.Same(t, errOwn, mw(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errOwn })).ProcessTask(t.Context(), task))
		if _, pattern := mux.Handler(task); key != "" {
			want = append(want, guard.Lock{Name: pattern, Key: key})
		}
	}
	for _, start := range recorder.Observations("WaitStart") {
		got = append(got, start.Lock)
	}
	assert.Equal(t, want, got)
}

func TestCheck_NamesRowsThatNoTaskHas(t *testing.T) {
	t.Parallel()
	tasks := guardasynq.Tasks{"order:": orders(), "order:charge": orders(), "report:build": orders()}
	assert.EqualError(t, guardasynq.Check([]string{"order:charge:now", "report:", "mail:send"}, tasks),
		`guardasynq: row "order:": no task of the given types has it
guardasynq: row "report:build": no task of the given types has it`)
	assert.NoError(t, guardasynq.Check([]string{"order:pay", "order:charge", "report:build:daily"}, tasks))
	assert.EqualError(t, guardasynq.Check([]string{" "}, guardasynq.Tasks{" ": {}}), `guardasynq: row " ": it is blank`)
}

func TestKeyFunc_GivesATaskUpBySkipRetry(t *testing.T) {
	t.Parallel()
	for _, own := range []error{errOwn, fmt.Errorf("bad: %w", asynq.SkipRetry)} {
		mw := guardasynq.Middleware(guardtest.NewMemoryGuard(t), guardasynq.LockFunc(func(context.Context, guardasynq.Task) (string, error) { return "", own }))
		err := process(t.Context(), mw, never)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.ErrorIs(t, err, own)
		assert.Equal(t, own != errOwn, errors.Is(err, asynq.SkipRetry)) //nolint:errorlint // one of two
	}
}

func TestConfigure_CountsOnlyWhatRan(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{Concurrency: 3})
	assert.Equal(t, 3, cfg.Concurrency)
	for err, delay := range map[error]time.Duration{ // at least, and less than twice that; 0 if the run counts
		&guard.BusyError{RetryAfter: 3 * time.Second}: 3 * time.Second,
		guard.ErrClosed:                          time.Second,
		&guard.LostError{Cause: guard.ErrClosed}: 0,
		errOwn:                                   0,
	} {
		assert.Equal(t, delay == 0, cfg.IsFailure(err), "%v", err)
		for range 20 {
			got := cfg.RetryDelayFunc(0, err, task())
			if delay == 0 {
				assert.GreaterOrEqual(t, got, 15*time.Second, "asynq's own for %v", err)
				continue
			}
			assert.GreaterOrEqual(t, got, delay, "%v", err)
			assert.Less(t, got, 2*delay, "%v", err)
		}
	}
	assert.False(t, cfg.IsFailure(nil))
}

func TestConfigure_KeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, errOwn) },
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) * time.Hour },
	})
	assert.False(t, cfg.IsFailure(errOwn))
	assert.True(t, cfg.IsFailure(errors.New("another")))
	assert.False(t, cfg.IsFailure(guard.ErrClosed))
	assert.Equal(t, 2*time.Hour, cfg.RetryDelayFunc(2, errOwn, task()))
	assert.Less(t, cfg.RetryDelayFunc(2, guard.ErrBusy, task()), 2*time.Second)
}
