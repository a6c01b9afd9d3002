package retry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

const (
	timeout = 2 * time.Second
	attempt = time.Second
)

var (
	errDown    = errors.New("down")
	errNotSent = fmt.Errorf("full: %w", guardstore.ErrNotSent)
	errNoPort  = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	refusal    = &guardstore.RefusedError{Err: errDown}
)

// script is a store that answers the nth attempt as it says. It never answers an attempt that is not in it.
type script struct {
	t        *testing.T
	answers  map[int]error
	sent     []clock.Instant
	attempts []context.Context
	failures []error
}

// do sends a command in virtual time that begins with the call. The contexts of its attempts end with it.
func (s *script) do(ctx context.Context, c retry.Call) (retry.Answer[int], error) {
	c.Op, c.Label = "count", retry.Label{Name: "n", Key: "k"}
	p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(_ context.Context, op string, l retry.Label, err error) {
		assert.Equal(s.t, "count", op)
		assert.Equal(s.t, c.Label, l)
		s.failures = append(s.failures, err)
	}}
	defer func() {
		for _, attempt := range s.attempts {
			assert.Error(s.t, attempt.Err())
		}
	}()
	return retry.Do(ctx, p, c, func(ctx context.Context, request string) (int, error) {
		s.sent, s.attempts = append(s.sent, clock.Now()), append(s.attempts, ctx)
		assert.Equal(s.t, "request", request)
		deadline, ends := ctx.Deadline()
		assert.True(s.t, ends)
		assert.LessOrEqual(s.t, time.Until(deadline), attempt)
		if err, answered := s.answers[len(s.sent)]; answered {
			return len(s.sent), err
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}, "request")
}

// scripted runs a test in virtual time.
func scripted(t *testing.T, answers map[int]error, run func(t *testing.T, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, &script{t: t, answers: answers}) })
}

// failure is the error of the command.
func failure(err error) *retry.Error { return &retry.Error{Op: "count", Key: "k", Err: err} }

func TestDo_RepeatsUntilAnAnswer(t *testing.T) {
	ms := time.Millisecond
	refused := failure(errDown)
	refused.Refused = true
	for name, test := range map[string]struct {
		answers  map[int]error
		lasts    time.Duration // 0 = timeout
		repeat   bool
		attempts int
		err      error
		inDoubt  bool
		least    time.Duration
		most     time.Duration // 0 = as long as it lasts
		reported int
	}{
		"at once":                 {map[int]error{1: nil}, 0, false, 1, nil, false, 0, ms, 0},
		"once more":               {map[int]error{1: errDown, 2: nil}, 0, false, 2, nil, true, ms, 0, 1},
		"silent at first":         {map[int]error{2: nil}, 0, false, 2, nil, true, attempt, 0, 1},
		"not sent at first":       {map[int]error{1: errNotSent, 2: nil}, 0, false, 2, nil, false, ms, 0, 1},
		"not sent later":          {map[int]error{1: errDown, 2: errNotSent, 3: nil}, 0, false, 3, nil, true, ms, 0, 2},
		"refused":                 {map[int]error{1: refusal}, 0, false, 1, refused, false, 0, ms, 0},
		"refused later":           {map[int]error{1: errDown, 2: refusal}, 0, false, 2, refused, true, 0, 0, 1},
		"refused, and it repeats": {map[int]error{1: refusal, 2: refusal, 3: nil}, 0, true, 3, nil, false, ms, 0, 2},
		"refused to the end":      {map[int]error{1: refusal}, 5 * ms, true, 1, failure(errDown), false, 5 * ms, 5 * ms, 1},
		"silent":                  {nil, 0, false, 2, failure(context.DeadlineExceeded), true, timeout, 0, 1},
		"no port":                 {map[int]error{1: errNoPort}, 0, false, 2, failure(errNoPort), true, timeout / 2, timeout / 2, 1},
		"no port, for longer":     {map[int]error{1: errNoPort}, 3 * timeout, true, 7, failure(context.DeadlineExceeded), true, 3 * timeout, 3 * timeout, 6},

		"the end in a pause":                    {map[int]error{1: errDown}, 5 * ms, false, 1, failure(errDown), true, 5 * ms, 5 * ms, 1},
		"the end in an attempt":                 {nil, attempt / 2, false, 1, failure(context.DeadlineExceeded), true, attempt / 2, attempt / 2, 0},
		"the end at the end of an attempt":      {nil, attempt, false, 1, failure(context.DeadlineExceeded), true, attempt, attempt, 0},
		"the end where there is no port":        {map[int]error{1: errNoPort}, timeout / 8, false, 2, failure(errNoPort), true, timeout / 8, timeout / 8, 1},
		"the end in an attempt after a failure": {map[int]error{1: errDown}, attempt / 2, false, 2, failure(errDown), true, attempt / 2, attempt / 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, test.answers, func(t *testing.T, s *script) {
				begun, lasts := clock.Now(), cmp.Or(test.lasts, timeout)
				got, err := s.do(t.Context(), retry.Call{For: lasts, RepeatRefused: test.repeat})
				if test.err == nil {
					require.NoError(t, err)
					assert.Equal(t, test.attempts, got.Reply)
				} else {
					assert.Equal(t, test.err, err)
				}
				assert.Equal(t, test.attempts, got.Attempts)
				assert.Len(t, s.sent, test.attempts)
				assert.Equal(t, test.inDoubt, got.InDoubt)
				assert.Equal(t, s.sent[len(s.sent)-1], got.Sent)
				assert.GreaterOrEqual(t, clock.Now().Sub(begun), test.least)
				assert.LessOrEqual(t, clock.Now().Sub(begun), cmp.Or(test.most, lasts))
				assert.Len(t, s.failures, test.reported)
			})
		})
	}
}

// A caller leaves at once. That is no failure of the store's. Within its grace, the command is sent again.
func TestDo_ACallerLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		answers  map[int]error
		left     bool // before the call
		call     retry.Call
		attempts int
		err      error
		takes    time.Duration
	}{
		"before":                     {nil, true, retry.Call{For: timeout}, 0, failure(retry.ErrNoAnswer), 0},
		"in an attempt":              {nil, false, retry.Call{For: timeout}, 1, failure(retry.ErrNoAnswer), time.Millisecond},
		"in a pause":                 {map[int]error{1: errDown}, false, retry.Call{For: timeout}, 1, failure(errDown), time.Millisecond},
		"before, with a grace":       {map[int]error{1: nil}, true, retry.Call{For: timeout, Grace: 1}, 1, nil, 0},
		"in an attempt, with one":    {map[int]error{2: nil}, false, retry.Call{For: timeout, Grace: 1}, 2, nil, time.Millisecond},
		"the grace ends":             {nil, false, retry.Call{For: timeout, Grace: attempt / 2}, 2, failure(context.DeadlineExceeded), attempt/2 + time.Millisecond},
		"the call ends in its grace": {nil, true, retry.Call{For: attempt / 2, Grace: timeout}, 1, failure(context.DeadlineExceeded), attempt / 2},
	} {
		t.Run(name, func(t *testing.T) {
			scripted(t, test.answers, func(t *testing.T, s *script) {
				begun := clock.Now()
				ctx, cancel := context.WithCancel(t.Context())
				if test.left {
					cancel()
				} else {
					time.AfterFunc(time.Millisecond, cancel)
				}
				got, err := s.do(ctx, test.call)
				if test.err == nil {
					require.NoError(t, err)
				} else {
					assert.Equal(t, test.err, err)
				}
				assert.Equal(t, test.attempts, got.Attempts)
				assert.Equal(t, !test.left || test.err != nil && got.Attempts > 0, got.InDoubt)
				assert.Equal(t, test.takes, clock.Now().Sub(begun))
				if name == "in a pause" {
					assert.Equal(t, []error{errDown}, s.failures)
				} else {
					assert.Empty(t, s.failures)
				}
			})
		})
	}
}

// A call that has to stop does so after an attempt, and knows that the outcome is in doubt.
func TestDo_StopEndsAPause(t *testing.T) {
	scripted(t, map[int]error{1: errDown}, func(t *testing.T, s *script) {
		stop := make(chan struct{})
		close(stop)
		got, err := s.do(t.Context(), retry.Call{For: timeout, Stop: stop})
		var failure *retry.Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, []string{"count", "k"}, []string{failure.Op, failure.Key})
		require.ErrorIs(t, err, retry.ErrStopped)
		require.EqualError(t, err, "count: stopped: down", "the key is a secret")
		assert.Equal(t, 1, got.Attempts)
		assert.True(t, got.InDoubt)
	})
}

// The deadline of a caller is that of its attempt. A socket notices it a moment before the context: that is no failure of
// the store's.
func TestDo_AnAttemptEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(attempt/2+time.Millisecond, cancel)
		p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(context.Context, string, retry.Label, error) {
			assert.Fail(t, "no failure of the store's")
		}}
		late, call := lateTimer{ctx, time.Now().Add(attempt / 2)}, retry.Call{Op: "count", Label: retry.Label{Key: "k"}, For: timeout}
		got, err := retry.Do(late, p, call, func(ctx context.Context, _ string) (int, error) {
			at, _ := ctx.Deadline()
			time.Sleep(time.Until(at))
			return 0, errDown
		}, "")
		assert.Equal(t, failure(retry.ErrNoAnswer), err)
		assert.Equal(t, 1, got.Attempts)
	})
}

// lateTimer is a context whose end comes later than its deadline.
type lateTimer struct {
	context.Context
	at time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.at, true }

// Pauses double up to a bound, which is low while the server refuses connections, and each is half jitter.
// A failure is reported at once, also if the caller has a deadline.
func TestDo_ReportsAFailureAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		begun, reported := time.Now(), time.Hour
		p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(context.Context, string, retry.Label, error) {
			reported = time.Since(begun)
		}}
		attempts := 0
		_, err := retry.Do(ctx, p, retry.Call{For: timeout}, func(context.Context, int) (int, error) {
			if attempts++; attempts == 1 {
				return 0, errDown
			}
			return 0, nil
		}, 0)
		require.NoError(t, err)
		assert.Zero(t, reported)
	})
}

func TestDo_PausesGrowToTheirBound(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		longest time.Duration
	}{
		"no answer": {errDown, 200 * time.Millisecond},
		"no port":   {errNoPort, 25 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[int]error{}
			for n := range 500 {
				answers[n] = test.err
			}
			scripted(t, answers, func(t *testing.T, s *script) {
				begun := clock.Now()
				_, err := s.do(t.Context(), retry.Call{For: 15 * time.Second, RepeatRefused: true})
				require.Error(t, err)
				require.Greater(t, len(s.sent), 70)
				var most time.Duration
				for i, at := range s.sent[1:] {
					longest, pause := test.longest, at.Sub(s.sent[i])
					if s.sent[i] >= begun.Add(timeout) {
						longest = 200 * time.Millisecond // no caller waits for so long
					}
					longest = min(20*time.Millisecond<<min(i, 10), longest)
					if i < len(s.sent)-2 { // the last pause ends with the call
						assert.GreaterOrEqual(t, pause, longest/2, i)
						assert.LessOrEqual(t, pause, longest, i)
					}
					most = max(most, pause)
				}
				assert.Greater(t, most, 160*time.Millisecond)
			})
		})
	}
}

// An attempt that heeds no deadline, and fails after the end, is a failure of the store's.
func TestDo_AnAttemptThatIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(context.Context, string, retry.Label, error) { failures++ }}
		_, err := retry.Do(t.Context(), p, retry.Call{For: timeout}, func(context.Context, string) (int, error) {
			time.Sleep(2 * timeout)
			return 0, errDown
		}, "")
		require.ErrorIs(t, err, errDown)
		assert.Equal(t, 1, failures)
	})
}
