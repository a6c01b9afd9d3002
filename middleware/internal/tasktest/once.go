package tasktest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// once is orders, done once.
func once(opts ...guard.OnceOption) tasklock.Rule { return orders().Once(time.Hour, opts...) }

// onceGuard is newGuard, and deletes the records of keys when the test ends.
func onceGuard(t *testing.T) *guard.Guard {
	t.Helper()
	g := newGuard(t)
	t.Cleanup(func() {
		for _, key := range []string{"order:7", "order:8"} {
			_, err := g.Forget(context.Background(), guard.Key(key))
			assert.NoError(t, err)
		}
	})
	return g
}

// A failed run leaves nothing, and a task that is done does not run again.
func onceDone(t *testing.T, q Queue) {
	ended, own := newEnds(), errors.New("own")
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: onceGuard(t), Rule: once(), Seen: ended.seen, Work: func(ctx context.Context) error {
		_, ok := guard.Interrupted(ctx)
		assert.False(t, ok, "a failure is no crash")
		if runs.Add(1) == 1 {
			return own
		}
		return nil
	}})
	eventuallyDone(t, add(t, q, payOrder7))
	assert.Same(t, own, ended.next(t))
	assert.NoError(t, ended.next(t))
	for range 3 {
		assert.Zero(t, eventuallyDone(t, add(t, q, payOrder7)).Failures)
		assert.NoError(t, ended.next(t))
	}
	assert.EqualValues(t, 2, runs.Load())
	eventuallyDone(t, add(t, q, `{"order_id":8}`))
	assert.EqualValues(t, 3, runs.Load())
}

func onceInProgress(t *testing.T, q Queue) {
	g, ended := onceGuard(t), newEnds()
	begun, end := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	for range 2 {
		q.Serve(t, Setup{
			Guard: g, Rule: orders(guard.NoWait()).Once(time.Hour), Seen: ended.seen,
			Work: func(context.Context) error {
				if runs.Add(1) == 1 {
					close(begun)
					<-end
				}
				return nil
			},
		})
	}
	first := add(t, q, payOrder7)
	<-begun
	// The worker of the first task may read one task ahead, which waits. Another worker gets the other task.
	second, third := add(t, q, payOrder7), add(t, q, payOrder7)
	_ = ended.nextBusy(t)
	close(end)
	for _, state := range []func() State{first, second, third} {
		assert.Zero(t, eventuallyDone(t, state).Failures)
	}
	assert.EqualValues(t, 1, runs.Load())
}

func onceCrash(t *testing.T, q Queue) {
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: onceGuard(t), Rule: once(), Seen: newEnds().seen, Work: func(ctx context.Context) error {
		if runs.Add(1) == 1 {
			panic("boom")
		}
		_, ok := guard.Interrupted(ctx)
		assert.True(t, ok)
		return nil
	}})
	eventuallyDone(t, add(t, q, payOrder7))
	eventuallyDone(t, add(t, q, payOrder7))
	assert.EqualValues(t, 2, runs.Load())
}

// A task that must not run again is given up, and runs when a person deletes its record.
func atMostOnce(t *testing.T, q Queue) {
	g, ended := onceGuard(t), newEnds()
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: g, Rule: once(guard.AtMostOnce()), Seen: ended.seen, Work: func(context.Context) error {
		if runs.Add(1) == 1 {
			panic("boom")
		}
		return nil
	}})
	state := add(t, q, payOrder7)
	assert.ErrorIs(t, ended.next(t), guard.ErrUnknownOutcome)
	eventuallyGivenUp(t, state)
	assert.EqualValues(t, 1, runs.Load())

	forgot, err := g.Forget(t.Context(), guard.Key("order:7"))
	assert.NoError(t, err)
	assert.True(t, forgot)
	eventuallyDone(t, add(t, q, payOrder7))
	assert.EqualValues(t, 2, runs.Load())
}

func onceOtherInput(t *testing.T, q Queue) {
	ended := newEnds()
	var runs atomic.Int64
	// Options that would let all inputs, or no record, pass do not count.
	opts := []guard.OnceOption{guard.Fingerprint(), guard.MaxResult(1), guard.Encoding(nowhere, func([]byte, any) error { return errNowhere })}
	q.Serve(t, Setup{Guard: onceGuard(t), Rule: once(opts...), Seen: ended.seen, Work: func(context.Context) error { runs.Add(1); return nil }})
	eventuallyDone(t, add(t, q, payOrder7))
	assert.NoError(t, ended.next(t))
	other := add(t, q, `{"order_id":7,"amount":2}`)
	assert.ErrorIs(t, ended.next(t), guard.ErrOtherInput)
	eventuallyGivenUp(t, other)
	eventuallyDone(t, add(t, q, payOrder7))
	assert.EqualValues(t, 1, runs.Load())
}

var errNowhere = errors.New("is written nowhere")

func nowhere(any) ([]byte, error) { return nil, errNowhere }
