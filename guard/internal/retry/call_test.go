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
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	timeout = 2 * time.Second
	attempt = time.Second
)

var errDown = errors.New("down")

// attempts makes a call whose nth attempt is answered as the script says; one that is not in
// it is never answered.
func attempts(t *testing.T, script map[int]error) (c *retry.Call[int], failures *[]error) {
	t.Helper()
	failures = new([]error)
	p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(_ context.Context, op string, l retry.Label, err error) {
		assert.Equal(t, "count", op)
		assert.Equal(t, "k", l.Key)
		*failures = append(*failures, err)
	}}
	n := 0
	return retry.NewCall(p, "count", retry.Label{Name: "n", Key: "k"}, new(retry.Slots[int]),
		func(ctx, leave context.Context, again bool, done func(int, error)) {
			n++
			assert.Equal(t, n > 1, again)
			deadline, ends := ctx.Deadline()
			assert.True(t, ends)
			assert.LessOrEqual(t, time.Until(deadline), attempt)
			require.NoError(t, ctx.Err(), "an attempt does not end with its caller")
			if err, answered := script[n]; answered {
				done(n, err)
			}
		}), failures
}

func TestACallIsRepeatedUntilItIsAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		script  map[int]error
		want    int
		err     error
		inDoubt bool
		after   time.Duration // at least
	}{
		"at once":          {map[int]error{1: nil}, 1, nil, false, 0},
		"once more":        {map[int]error{1: errDown, 2: nil}, 2, nil, true, time.Millisecond},
		"silent at first":  {map[int]error{2: nil}, 2, nil, true, attempt},
		"refused":          {map[int]error{1: &guardstore.RefusedError{Err: errDown}}, 1, errDown, false, 0},
		"refused later":    {map[int]error{1: errDown, 2: &guardstore.RefusedError{Err: errDown}}, 2, errDown, true, 0},
		"never":            {nil, 2, retry.ErrNoAnswer, true, timeout},
		"its caller left":  {map[int]error{1: task.ErrLeft}, 1, retry.ErrNoAnswer, true, 0},
		"nobody listening": {map[int]error{1: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, 2, retry.ErrNoAnswer, true, timeout / 2},
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

// A caller leaves at once; the attempt goes on, and whoever takes the call up has its answer.
func TestACallThatWasLeftIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer func(int, error)
		p := &retry.Policy{Timeout: timeout, AttemptTimeout: attempt}
		c := retry.NewCall(p, "count", retry.Label{}, new(retry.Slots[int]),
			func(_, _ context.Context, _ bool, done func(int, error)) { answer = done })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Run(ctx, nil, c.Begun.Add(timeout))
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		require.NotNil(t, c.InFlight)
		stopped := make(chan struct{})
		close(stopped)
		_, err = c.Run(t.Context(), stopped, c.Begun.Add(timeout))
		require.ErrorIs(t, err, retry.ErrStopped)
		answer(7, nil)
		got, err := c.RunWithGrace(ctx, c.Begun.Add(timeout), time.Millisecond)
		require.NoError(t, err, "an answer that is there counts, whatever is over")
		assert.Equal(t, 7, got)
		assert.Equal(t, 1, c.Attempts)
		assert.False(t, c.InDoubt)
		assert.Nil(t, c.InFlight)
	})
}

// What a call failed with is that of its last attempt, without the key in its text.
func TestFailureSaysWhatWasReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: errDown})
		_, err := c.Run(t.Context(), nil, clock.Now().Add(attempt/2))
		e := c.Failure(err)
		assert.Equal(t, retry.Error{Op: "count", Key: "k", Err: errDown}, *e)
		require.ErrorIs(t, e, errDown)
		assert.Equal(t, "count: down", e.Error())

		c, _ = attempts(t, map[int]error{1: &guardstore.RefusedError{Err: errDown}})
		_, err = c.Run(t.Context(), nil, clock.Now().Add(attempt))
		assert.True(t, c.Failure(err).Refused)
	})
}
