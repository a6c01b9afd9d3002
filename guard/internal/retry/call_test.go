package retry_test

import (
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

var errDown = errors.New("down")

// attempts makes a call whose nth attempt is answered as the script says; one that is not in
// it is never answered.
func attempts(t *testing.T, script map[int]error) (c *retry.Call[string, int], failures *[]error) {
	t.Helper()
	failures = new([]error)
	p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(_ context.Context, op string, l retry.Label, err error) {
		assert.Equal(t, "count", op)
		assert.Equal(t, "k", l.Key)
		*failures = append(*failures, err)
	}}
	n := 0
	c = retry.NewCall(p, "count", retry.Label{Name: "n", Key: "k"}, func(ctx context.Context, request string) (int, error) {
		n++
		assert.Equal(t, "request", request)
		deadline, ends := ctx.Deadline()
		assert.True(t, ends)
		assert.LessOrEqual(t, time.Until(deadline), attempt)
		if err, answered := script[n]; answered {
			return n, err
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}, "request")
	return c, failures
}

func TestCall_ACallIsRepeatedUntilItIsAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		script  map[int]error
		want    int
		err     error
		inDoubt bool
		after   time.Duration // at least
	}{
		"at once":           {map[int]error{1: nil}, 1, nil, false, 0},
		"once more":         {map[int]error{1: errDown, 2: nil}, 2, nil, true, time.Millisecond},
		"silent at first":   {map[int]error{2: nil}, 2, nil, true, attempt},
		"not sent at first": {map[int]error{1: fmt.Errorf("busy: %w", guardstore.ErrNotSent), 2: nil}, 2, nil, false, time.Millisecond},
		"not sent later":    {map[int]error{1: errDown, 2: fmt.Errorf("busy: %w", guardstore.ErrNotSent), 3: nil}, 3, nil, true, time.Millisecond},
		"refused":           {map[int]error{1: &guardstore.RefusedError{Err: errDown}}, 1, errDown, false, 0},
		"refused later":     {map[int]error{1: errDown, 2: &guardstore.RefusedError{Err: errDown}}, 2, errDown, true, 0},
		"never":             {nil, 2, retry.ErrNoAnswer, true, timeout},
		"nobody listening":  {map[int]error{1: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, 2, retry.ErrNoAnswer, true, timeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, failures := attempts(t, test.script)
				begun := time.Now()
				got, err := c.Run(t.Context(), nil, c.Begun.Add(timeout))
				if test.err == nil {
					require.NoError(t, err)
					assert.Equal(t, test.want, got)
				} else {
					require.ErrorIs(t, err, test.err)
				}
				assert.Equal(t, test.want, c.Attempts)
				assert.Equal(t, test.inDoubt, c.InDoubt)
				assert.GreaterOrEqual(t, time.Since(begun), test.after)
				assert.LessOrEqual(t, time.Since(begun), timeout)
				assert.LessOrEqual(t, len(*failures), c.Attempts)
			})
		})
	}
}

// A release is repeated after a refusal, too, and its outcome is known all the same: a refusal did nothing.
func TestCall_RepeatRefusedRepeatsARefusal(t *testing.T) {
	refusal := &guardstore.RefusedError{Err: errDown}
	synctest.Test(t, func(t *testing.T) {
		c, failures := attempts(t, map[int]error{1: refusal, 2: refusal, 3: nil})
		c.RepeatRefused = true
		got, err := c.Run(t.Context(), nil, c.Begun.Add(timeout))
		require.NoError(t, err)
		assert.Equal(t, 3, got)
		assert.False(t, c.InDoubt)
		assert.Equal(t, []error{refusal, refusal}, *failures)
	})
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: refusal})
		c.RepeatRefused = true
		_, err := c.Run(t.Context(), nil, c.Begun.Add(5*time.Millisecond))
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, retry.Error{Op: "count", Key: "k", Err: errDown}, *c.Failure(err))
	})
}

// Where nobody listens, what may go on for longer than a call does so.
func TestCall_AnAsynchronousCallGoesOnWhereNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)})
		_, err := c.Run(t.Context(), nil, c.Begun.Add(3*timeout))
		assert.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, clock.Now(), c.Begun.Add(3*timeout))
	})
}

// A caller leaves at once, which is no failure of the store's; a later caller of it sends
// the command again.
func TestCall_ACallThatWasLeftIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, failures := attempts(t, map[int]error{2: nil})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := c.Run(ctx, nil, c.Begun.Add(timeout))
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, time.Millisecond, clock.Now().Sub(c.Begun))
		assert.True(t, c.InDoubt)
		assert.Empty(t, *failures)
		assert.Equal(t, retry.ErrNoAnswer, c.Failure(err).Err)

		_, err = c.Run(ctx, nil, c.Begun.Add(timeout))
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, 1, c.Attempts, "nothing is sent for a caller that has left")

		got, err := c.RunWithGrace(ctx, nil, c.Begun.Add(timeout), time.Millisecond)
		require.NoError(t, err)
		assert.Equal(t, 2, got)
	})
}

// A grace goes on after the end of ctx, and ends itself.
func TestCall_AGraceIsAsLongAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.RunWithGrace(ctx, nil, c.Begun.Add(timeout), time.Millisecond)
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, time.Millisecond, clock.Now().Sub(c.Begun))
	})
}

// A call that is asked to stop stops after an attempt, and knows that the outcome is in doubt.
func TestCall_ACallThatHasToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: errDown})
		after := 0
		c.After = func(retry.Label, string) { after++ }
		stop := make(chan struct{})
		close(stop)
		_, err := c.Run(t.Context(), stop, c.Begun.Add(timeout))
		require.ErrorIs(t, err, retry.ErrStopped)
		assert.Equal(t, 1, c.Attempts)
		assert.Equal(t, 1, after)
		assert.True(t, c.InDoubt)
	})
}

// What a call failed with is that of its last attempt, without the key in its text.
func TestCall_FailureSaysWhatWasReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: errDown})
		_, err := c.Run(t.Context(), nil, clock.Now().Add(attempt/2))
		e := c.Failure(err)
		assert.Equal(t, retry.Error{Op: "count", Key: "k", Err: errDown}, *e)
		require.ErrorIs(t, e, errDown)
		assert.Equal(t, "count: down", e.Error())

		c, _ = attempts(t, map[int]error{1: &guardstore.RefusedError{Err: errDown}})
		_, err = c.Run(t.Context(), nil, clock.Now().Add(attempt))
		assert.Equal(t, retry.Error{Op: "count", Key: "k", Err: errDown, Refused: true}, *c.Failure(err))
	})
}

// Pauses double up to a bound, which is low where nobody listens, and each is half jitter.
func TestCall_PausesGrowToTheirBound(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		longest time.Duration
	}{
		"no answer":      {errDown, 200 * time.Millisecond},
		"nobody listens": {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), 25 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := map[int]error{}
				for n := range 500 {
					script[n] = test.err
				}
				c, _ := attempts(t, script)
				var sent []clock.Instant
				c.After = func(retry.Label, string) { sent = append(sent, c.Sent) }
				_, err := c.Run(t.Context(), nil, c.Begun.Add(15*time.Second))
				require.ErrorIs(t, err, retry.ErrNoAnswer)
				require.Greater(t, len(sent), 70)
				var most time.Duration
				for i, at := range sent[1:] {
					wait, pause := min(20*time.Millisecond<<min(i, 10), test.longest), at.Sub(sent[i])
					if sent[i] >= c.Begun.Add(timeout) {
						wait = min(20*time.Millisecond<<min(i, 10), 200*time.Millisecond) // no call goes on for so long
					}
					if i < len(sent)-2 { // the last one ends with the limit
						assert.GreaterOrEqual(t, pause, wait/2, i)
						assert.Less(t, pause, wait, i)
					}
					most = max(most, pause)
				}
				assert.Greater(t, most, 160*time.Millisecond)
			})
		})
	}
}

// A call ends at its limit: also in a pause, and with what was reported before.
func TestCall_ACallEndsAtItsLimit(t *testing.T) {
	for name, test := range map[string]struct {
		script   map[int]error
		limit    time.Duration
		want     error
		failures int
	}{
		"in a pause":                    {map[int]error{1: errDown}, 5 * time.Millisecond, errDown, 1},
		"in an attempt":                 {nil, attempt / 2, context.DeadlineExceeded, 0},
		"at the end of an attempt":      {nil, attempt, context.DeadlineExceeded, 0},
		"where nobody listens":          {map[int]error{1: syscall.ECONNREFUSED}, timeout / 8, syscall.ECONNREFUSED, 1},
		"in an attempt after a failure": {map[int]error{1: errDown}, attempt / 2, errDown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, failures := attempts(t, test.script)
				_, err := c.Run(t.Context(), nil, c.Begun.Add(test.limit))
				require.Equal(t, retry.ErrNoAnswer, err)
				assert.Equal(t, test.limit, clock.Now().Sub(c.Begun))
				assert.Equal(t, test.want, c.Failure(err).Err)
				assert.Len(t, *failures, test.failures)
				if name == "in a pause" {
					assert.Equal(t, 1, c.Attempts)
				}
			})
		})
	}
}

// An attempt that goes on after its own end, past the limit, is a failure of the store's.
func TestCall_AnAttemptThatHeedsNoEndIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(context.Context, string, retry.Label, error) { failures++ }}
		c := retry.NewCall(p, "count", retry.Label{}, func(context.Context, string) (int, error) {
			time.Sleep(2 * timeout)
			return 0, errDown
		}, "")
		_, err := c.Run(t.Context(), nil, c.Begun.Add(timeout))
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, 1, failures)
	})
}

// The first attempt counts from when the call was made, a later one from its own sending.
func TestCall_TheFirstAttemptCountsFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: nil, 2: nil})
		time.Sleep(100 * time.Millisecond)
		_, err := c.Run(t.Context(), nil, c.Begun.Add(timeout))
		require.NoError(t, err)
		assert.Equal(t, c.Begun, c.Sent)
		_, err = c.Run(t.Context(), nil, c.Begun.Add(timeout))
		require.NoError(t, err)
		assert.Equal(t, c.Begun.Add(100*time.Millisecond), c.Sent)
	})
}

// A grace is for a call that its caller left without an answer, within the limit.
func TestCall_WhatAGraceIsFor(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		ctx      context.Context
		err      error
		attempts int
	}{
		"a caller that left":  {left, retry.ErrNoAnswer, 1},
		"a caller that stays": {t.Context(), retry.ErrNoAnswer, 0},
		"a refusal":           {left, &guardstore.RefusedError{Err: errDown}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := attempts(t, nil)
				_, err := c.RunOn(test.ctx, nil, c.Begun.Add(attempt/2), timeout, 0, test.err)
				require.ErrorIs(t, err, test.err)
				assert.Equal(t, test.attempts, c.Attempts)
				assert.LessOrEqual(t, clock.Now().Sub(c.Begun), attempt/2)
			})
		})
	}
}
