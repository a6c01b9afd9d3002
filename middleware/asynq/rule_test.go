package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestAnnotate_LongestPatternWins(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	base := guardasynq.Lock("order:{id}")
	_ = base.And("left alone")
	tasks := guardasynq.Tasks{
		"order:":        base,
		"order:charge":  guardasynq.Lock("charge:{id}", guard.Name("charges")),
		"order:free":    guardasynq.Lock("free").Unlocked(func(context.Context, guardasynq.Task) bool { return true }),
		"order:refund:": guardasynq.LockFunc(func(_ context.Context, t guardasynq.Task) (string, error) { return t.Kind, nil }),
	}
	mw := guardasynq.Annotate(guardtest.NewMemoryGuard(t, guard.Observe(recorder)), tasks)
	clear(tasks)
	want := []guard.Lock{}
	for kind, lock := range map[string]guard.Lock{
		"order:pay":        {Name: "order:", Key: "order:7"},
		"order:charge:now": {Name: "charges", Key: "charge:7"},
		"order:free":       {},
		"order:refund:x":   {Name: "order:refund:", Key: "order:refund:x"},
		"order":            {},
		"Order:pay":        {},
	} {
		task := asynq.NewTask(kind, []byte(`{"id":7}`))
		assert.Same(t, errOwn, mw(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return errOwn })).ProcessTask(t.Context(), task))
		if lock.Key != "" {
			want = append(want, lock)
		}
	}
	got := []guard.Lock{}
	for _, start := range recorder.Observations("WaitStart") {
		got = append(got, start.Lock)
	}
	assert.Equal(t, want, got)
}

// FuzzTablePicksWhatServeMuxPicks compares with asynq itself.
func FuzzTablePicksWhatServeMuxPicks(f *testing.F) {
	f.Add("order:,order:charge,o", "order:charge:now")
	f.Add("a,ab,abc,b", "abd")
	f.Add("image,image:", "image:resize")
	f.Add(" a,a", " a")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, patterns, kind string) {
		mux, tasks, picked := asynq.NewServeMux(), guardasynq.Tasks{}, ""
		for pattern := range strings.SplitSeq(patterns, ",") {
			if _, ok := tasks[pattern]; ok || strings.TrimSpace(pattern) == "" {
				continue
			}
			mux.HandleFunc(pattern, succeed)
			tasks[pattern] = guardasynq.LockFunc(func(context.Context, guardasynq.Task) (string, error) {
				picked = pattern
				return "", errOwn
			})
		}
		task := asynq.NewTask(kind, nil)
		_, want := mux.Handler(task)
		_ = guardasynq.Annotate(guardtest.NewMemoryGuard(t), tasks)(asynq.HandlerFunc(succeed)).ProcessTask(t.Context(), task)
		if picked != want {
			t.Fatalf("%q, %q: the table picks %q, the mux %q", patterns, kind, picked, want)
		}
	})
}

func TestCheck_NamesRowsThatNoTaskHas(t *testing.T) {
	t.Parallel()
	tasks := guardasynq.Tasks{
		"order:": orders(), "order:charge": orders(), "report:build": orders(), "repotr:": orders(),
	}
	const unused = ": no task of the given types has it"
	assert.EqualError(t, guardasynq.Check([]string{"order:pay", "order:charge:now", "report:", "mail:send"}, tasks),
		`guardasynq: row "report:build"`+unused+"\n"+`guardasynq: row "repotr:"`+unused)
	delete(tasks, "repotr:")
	assert.NoError(t, guardasynq.Check([]string{"order:pay", "order:charge", "report:build:daily"}, tasks))
	assert.EqualError(t, guardasynq.Check([]string{"order:charge", "report:build"}, tasks), `guardasynq: row "order:"`+unused)
	assert.EqualError(t, guardasynq.Check([]string{" "}, guardasynq.Tasks{" ": {}}), `guardasynq: row " ": it is blank`)
	assert.NoError(t, guardasynq.Check(nil, nil))
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
