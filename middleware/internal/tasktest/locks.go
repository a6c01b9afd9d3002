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
)

// exclusion has two servers, each with a Guard of its own, work on tasks of one key.
func exclusion(t *testing.T, q Queue) {
	const tasks = 40
	var inside atomic.Bool
	runs := 0 // under nothing but the lock
	for range 2 {
		q.Serve(t, Setup{
			Guard: newGuard(t), Options: []guard.LockOption{guard.Wait(patience)}, Seen: newEnds().seen,
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
		states = append(states, q.Add(t, payOrder7))
	}
	for _, state := range states {
		assert.Zero(t, eventuallyDone(t, state).Failures)
	}
	lease, err := newGuard(t).Acquire(t.Context(), guard.Key("order:7"), guard.Wait(patience))
	require.NoError(t, err)
	assert.Equal(t, tasks, runs)
	assert.NoError(t, lease.Release(t.Context()))
}

// keys are the same in every adapter.
func keys(t *testing.T, q Queue) {
	keys := make(chan string, 1)
	q.Serve(t, Setup{Guard: newGuard(t), Seen: newEnds().seen, Work: func(ctx context.Context) error {
		lease, ok := guard.FromContext(ctx)
		if assert.True(t, ok) {
			keys <- lease.Key()
		}
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}})
	for payload, want := range map[string]string{
		payOrder7:                     "order:7",
		`{"order_id":"a:b%"}`:         "order:a%3Ab%25",
		`{"other":1,"ORDER_ID":true}`: "order:true",
	} {
		state := q.Add(t, payload)
		assert.Equal(t, want, <-keys)
		eventuallyDone(t, state)
	}
}

// A busy task comes back, and that does not count against it.
func busy(t *testing.T, q Queue) {
	g, ended := newGuard(t), newEnds()
	release := holdOrder7(t, g)
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: g, Options: []guard.LockOption{guard.NoWait()}, Seen: ended.seen, Work: func(context.Context) error {
		runs.Add(1)
		return nil
	}})
	state := q.Add(t, payOrder7)
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

func limit(t *testing.T, q Queue) {
	g, ended := newGuard(t), newEnds()
	first, second := holdOrder7(t, g, guard.Limit(2)), holdOrder7(t, g, guard.Limit(2))
	q.Serve(t, Setup{
		Guard: g, Options: []guard.LockOption{guard.NoWait(), guard.Limit(2)}, Seen: ended.seen,
		Work: func(context.Context) error { return nil },
	})
	state := q.Add(t, payOrder7)
	assert.EqualValues(t, 2, ended.nextBusy(t).Limit)
	first()
	assert.Zero(t, eventuallyDone(t, state).Failures)
	second()
}

// A lost lock is never a success: what ran under it runs again.
func lost(t *testing.T, q Queue) {
	g, ended, rdb := newGuard(t, guard.TTL(600*time.Millisecond)), newEnds(), redistest.Shared(t).Client(t)
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: g, Seen: ended.seen, Work: func(ctx context.Context) error {
		if runs.Add(1) > 1 {
			return nil
		}
		assert.NoError(t, rdb.Del(context.WithoutCancel(ctx), prefix(t)+":{order:7}").Err())
		<-ctx.Done()
		var lost *guard.LostError
		assert.ErrorAs(t, context.Cause(ctx), &lost)
		return nil
	}})
	state := q.Add(t, payOrder7)
	assert.ErrorIs(t, ended.next(t), guard.ErrLost)
	eventuallyDone(t, state)
	assert.EqualValues(t, 2, runs.Load())
}

// The locks' Redis is not the one of the tasks here.
func outage(t *testing.T, q Queue) {
	server, ended := redistest.Start(t), newEnds()
	g := newGuardOn(t, server, guard.StoreTimeout(200*time.Millisecond))
	server.Kill()
	q.Serve(t, Setup{Guard: g, Seen: ended.seen, Work: func(context.Context) error { return nil }})
	state := q.Add(t, payOrder7)
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
	q.Serve(t, Setup{Guard: g, Seen: ended.seen, Work: never})
	state := q.Add(t, payOrder7)
	assert.ErrorIs(t, ended.next(t), guard.ErrClosed)
	assert.False(t, state().Done)
	assert.Zero(t, state().Failures)
}

// What will never have a key is given up, and does not keep others from their turn.
func withoutKey(t *testing.T, q Queue) {
	ended := newEnds()
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: newGuard(t), Seen: ended.seen, Work: func(context.Context) error { runs.Add(1); return nil }})
	for _, payload := range []string{`{}`, `{"order_id":null}`, `{"order_id":1,"ORDER_ID":2}`} {
		state := q.Add(t, payload)
		err := ended.next(t)
		assert.ErrorIs(t, err, guard.ErrKey, payload)
		assert.ErrorContains(t, err, "placeholder {order_id}", payload)
		eventually(t, state, func(s State) bool { return s.GivenUp }, "it is not given up")
	}
	assert.Zero(t, runs.Load())
	eventuallyDone(t, q.Add(t, payOrder7))
}

func panics(t *testing.T, q Queue) {
	var runs atomic.Int64
	// The second run is long before the lease of the first would have lapsed.
	q.Serve(t, Setup{
		Guard: newGuard(t, guard.TTL(time.Hour)), Options: []guard.LockOption{guard.NoWait()}, Seen: newEnds().seen,
		Work: func(context.Context) error {
			if runs.Add(1) == 1 {
				panic("boom")
			}
			return nil
		},
	})
	eventuallyDone(t, q.Add(t, payOrder7))
	assert.EqualValues(t, 2, runs.Load())
}

func skipped(t *testing.T, q Queue) {
	g := newGuard(t)
	release := holdOrder7(t, g)
	defer release()
	q.Serve(t, Setup{Guard: g, Unlocked: true, Seen: newEnds().seen, Work: func(ctx context.Context) error {
		_, ok := guard.FromContext(ctx)
		assert.False(t, ok)
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}})
	eventuallyDone(t, q.Add(t, payOrder7))
}

func ownError(t *testing.T, q Queue) {
	ended, own := newEnds(), errors.New("own")
	var runs atomic.Int64
	q.Serve(t, Setup{Guard: newGuard(t), Seen: ended.seen, Work: func(context.Context) error {
		if runs.Add(1) == 1 {
			return own
		}
		return nil
	}})
	state := q.Add(t, payOrder7)
	assert.Same(t, own, ended.next(t))
	eventuallyDone(t, state)
}
