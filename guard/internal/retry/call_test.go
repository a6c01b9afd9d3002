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

func TestACallIsRepeatedUntilItIsAnswered(t *testing.T) {
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

// Where nobody listens, what may go on for longer than a call does so.
func TestACallBehindItsCallerGoesOnWhereNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, map[int]error{1: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)})
		_, err := c.Run(t.Context(), nil, c.Begun.Add(3*timeout))
		assert.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, clock.Now(), c.Begun.Add(3*timeout))
	})
}

// A caller leaves at once, which is no failure of the store's; whoever takes the call up sends
// the command again.
func TestACallThatWasLeftIsTakenUp(t *testing.T) {
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
func TestAGraceIsAsLongAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := attempts(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.RunWithGrace(ctx, nil, c.Begun.Add(timeout), time.Millisecond)
		require.ErrorIs(t, err, retry.ErrNoAnswer)
		assert.Equal(t, time.Millisecond, clock.Now().Sub(c.Begun))
	})
}

// Who is told to stop stops after an attempt, and knows that it is in doubt.
func TestACallThatIsToldToStop(t *testing.T) {
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
