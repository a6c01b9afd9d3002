package tasktest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// exclusion runs two servers, each with its own Guard, on tasks of one key.
func exclusion(t *testing.T, q Queue) {
	const tasks = 40
	var inside atomic.Bool
	runs := 0 // under nothing but the lock
	for range 2 {
		q.Serve(t, Setup{
			Guard: newGuard(t), Rule: orders(guard.Wait(patience)), Seen: newEnds().seen,
			Work: func(context.Context) error {
				assert.True(t, inside.CompareAndSwap(false, true), "two at a time")
				defer inside.Store(false)
				before := runs
				runtime.Gosched()
				runs = before + 1
				return nil
			},
		})
	}
	var states []func() State
	for range tasks {
		states = append(states, add(t, q, payOrder7))
	}
	for _, state := range states {
		assert.Zero(t, eventuallyDone(t, state).Failures)
	}
	lease, err := newGuard(t).Acquire(t.Context(), guard.Key("order:7"), guard.Wait(patience))
	require.NoError(t, err)
	assert.Equal(t, tasks, runs)
	assert.NoError(t, lease.Release(t.Context()))
}

// The words of a template are the fields of the Task, and keys are the same, whichever queue it came from.
func keys(t *testing.T, q Queue) {
	tasks, keys := make(chan tasklock.Task, 1), make(chan string, 1)
	rule := tasklock.New("tasktest", 0).Lock("{order_id}:{header:tenant}:{task:kind}:{task:queue}:{task:id}", nil).
		Unlocked(func(_ context.Context, task tasklock.Task) bool { tasks <- task; return false })
	q.Serve(t, Setup{Guard: newGuard(t), Rule: rule, Seen: newEnds().seen, Work: func(ctx context.Context) error {
		lease, ok := guard.FromContext(ctx)
		if assert.True(t, ok) {
			keys <- lease.Key()
		}
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}})
	for payload, id := range map[string]string{payOrder7: "7", `{"order_id":"a:b%"}`: "a:b%", `{"other":1,"ORDER_ID":true}`: "true"} {
		state := add(t, q, payload)
		task := <-tasks
		assert.Equal(t, guard.JoinKey(id, "acme", task.Kind, task.Queue, task.ID), <-keys)
		assert.JSONEq(t, payload, string(task.Payload))
		assert.Empty(t, task.Header("nope"))
		assert.NotNil(t, task.Native)
		eventuallyDone(t, state)
	}
}

// A busy task comes back, and that does not count against it.
func busy(t *testing.T, q Queue) {
	g, ended := newGuard(t), newEnds()
	release := Hold(t, g)
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: g, Rule: orders(guard.NoWait()), Seen: ended.seen, Work: func(context.Context) error {
		runs.Add(1)
		return nil
	}})
	state := add(t, q, payOrder7)
	busy := ended.nextBusy(t)
	assert.Zero(t, busy.Waited)
	for _, private := range []string{"order:7", "secret"} {
		assert.NotContains(t, busy.Error(), private, "frameworks keep what errors say")
	}
	assert.Zero(t, runs.Load(), "without its lock")
	assert.False(t, state().Done)
	release()
	assert.Zero(t, eventuallyDone(t, state).Failures)
	assert.EqualValues(t, 1, runs.Load())
}

// A task is dropped for work that the lock's holder does anyway: it is no error.
func dropped(t *testing.T, q Queue) {
	g := newGuard(t)
	defer Hold(t, g)()
	rule := orders(guard.NoWait()).OnBusy(tasklock.Drop).OnError(func(_ context.Context, _ tasklock.Task, err error) error {
		t.Errorf("%v is no error", err)
		return err
	})
	q.Serve(t, Setup{Guard: g, Rule: rule, Seen: newEnds().seen, Work: never})
	eventuallyDone(t, add(t, q, payOrder7))
}

func givenUp(t *testing.T, q Queue) {
	g, ended := newGuard(t), newEnds()
	release := Hold(t, g)
	rule := orders(guard.NoWait()).OnBusy(tasklock.GiveUp)
	q.Serve(t, Setup{Guard: g, Rule: rule, Seen: ended.seen, Work: func(context.Context) error { return nil }})
	state := add(t, q, payOrder7)
	_ = ended.nextBusy(t)
	eventuallyGivenUp(t, state)
	release()
	eventuallyDone(t, add(t, q, payOrder7))
	assert.True(t, state().GivenUp)
}

// A lost lock is never a success: the task runs again.
func lost(t *testing.T, q Queue) {
	g, ended, rdb := newGuard(t, guard.TTL(600*time.Millisecond)), newEnds(), redistest.Shared(t).Client(t)
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: g, Rule: orders(), Seen: ended.seen, Work: func(ctx context.Context) error {
		if runs.Add(1) > 1 {
			return nil
		}
		assert.NoError(t, rdb.Del(context.WithoutCancel(ctx), prefix(t)+":{order:7}").Err())
		<-ctx.Done()
		var lost *guard.LostError
		assert.ErrorAs(t, context.Cause(ctx), &lost)
		return nil
	}})
	state := add(t, q, payOrder7)
	assert.ErrorIs(t, ended.next(t), guard.ErrLost)
	eventuallyDone(t, state)
	assert.EqualValues(t, 2, runs.Load())
}

// The locks have another Redis than the tasks here. An outage or a closed Guard is not a busy lock for any strategy.
func outage(t *testing.T, q Queue) {
	server, ended := redistest.Start(t), newEnds()
	g := newGuardOn(t, server, guard.StoreTimeout(200*time.Millisecond))
	server.Kill()
	q.Serve(t, Setup{Guard: g, Rule: orders().OnBusy(tasklock.GiveUp), Seen: ended.seen, Work: func(context.Context) error { return nil }})
	state := add(t, q, payOrder7)
	err := ended.next(t)
	assert.ErrorIs(t, err, guard.ErrStore)
	assert.NotErrorIs(t, err, guard.ErrBusy)
	assert.False(t, state().Done)
	server.Restart(t)
	assert.Zero(t, eventuallyDone(t, state).Failures)
}

func closed(t *testing.T, q Queue) {
	g, ended := newGuard(t), newEnds()
	require.NoError(t, g.Close())
	q.Serve(t, Setup{Guard: g, Rule: orders().OnBusy(tasklock.Drop), Seen: ended.seen, Work: never})
	state := add(t, q, payOrder7)
	assert.ErrorIs(t, ended.next(t), guard.ErrClosed)
	assert.False(t, state().Done)
	assert.Zero(t, state().Failures)
}

// A task that will never have a key is given up, and does not delay others.
func withoutKey(t *testing.T, q Queue) {
	ended := newEnds()
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: newGuard(t), Rule: orders(), Seen: ended.seen, Work: func(context.Context) error { runs.Add(1); return nil }})
	for _, payload := range []string{`{}`, `{"order_id":null}`, `{"order_id":1,"ORDER_ID":2}`} {
		state := add(t, q, payload)
		err := ended.next(t)
		assert.ErrorIs(t, err, guard.ErrKey, payload)
		assert.ErrorContains(t, err, "placeholder {order_id}", payload)
		eventually(t, state, func(s State) bool { return s.GivenUp }, "it is not given up")
	}
	assert.Zero(t, runs.Load())
	eventuallyDone(t, add(t, q, payOrder7))
}

func panics(t *testing.T, q Queue) {
	var runs atomic.Int64
	// The second run is long before the lease of the first would have lapsed.
	q.Serve(t, Setup{
		Guard: newGuard(t, guard.TTL(time.Hour)), Rule: orders(guard.NoWait()), Seen: newEnds().seen,
		Work: func(context.Context) error {
			if runs.Add(1) == 1 {
				panic("boom")
			}
			return nil
		},
	})
	eventuallyDone(t, add(t, q, payOrder7))
	assert.EqualValues(t, 2, runs.Load())
}

func skipped(t *testing.T, q Queue) {
	g := newGuard(t)
	release := Hold(t, g)
	defer release()
	rule := orders().
		Unlocked(func(context.Context, tasklock.Task) bool { return false }).Unlocked(nil).
		Unlocked(func(_ context.Context, task tasklock.Task) bool { return task.Header("tenant") == "acme" })
	q.Serve(t, Setup{Guard: g, Rule: rule, Seen: newEnds().seen, Work: func(ctx context.Context) error {
		_, ok := guard.FromContext(ctx)
		assert.False(t, ok)
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}})
	eventuallyDone(t, add(t, q, payOrder7))
}

// The program decides about guard's errors, and not about the handler's own.
func onError(t *testing.T, q Queue) {
	g, ended, own := newGuard(t), newEnds(), errors.New("own")
	release := Hold(t, g)
	decided := make(chan error, 10)
	rule := orders(guard.NoWait()).OnError(func(_ context.Context, task tasklock.Task, err error) error {
		assert.Equal(t, "acme", task.Header("tenant"))
		decided <- err
		return nil
	}).OnError(nil)
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: g, Rule: rule, Seen: ended.seen, Work: func(context.Context) error {
		if runs.Add(1) == 1 {
			return own
		}
		return nil
	}})
	eventuallyDone(t, add(t, q, payOrder7))
	assert.ErrorIs(t, <-decided, guard.ErrBusy)
	assert.NoError(t, ended.next(t))
	release()
	eventuallyDone(t, add(t, q, payOrder7))
	assert.Same(t, own, ended.next(t))
	assert.Empty(t, decided)
}
