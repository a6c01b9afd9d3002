package guardasynq_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestRun_WaitEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{
		time.Second:      900 * time.Millisecond,
		5 * time.Second:  4500 * time.Millisecond,
		30 * time.Second: 29 * time.Second,
		time.Hour:        time.Minute, // the wait itself
	} {
		synctest.Test(t, func(t *testing.T) {
			g := guardtest.NewGuard(t)
			held := hold(t, g)
			defer release(t, held)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			start := time.Now()
			err := process(ctx, lockOrders(g, guard.Wait(time.Minute)), never)
			var busy *guard.BusyError
			require.ErrorAs(t, err, &busy)
			assert.Equal(t, want, time.Since(start))
			assert.Equal(t, want, busy.Waited)
			assert.NoError(t, busy.Err)
			assert.Equal(t, "lock_wait_timeout", busy.ErrorType())
			assert.NoError(t, ctx.Err())
		})
	}
}

func TestRun_HandlerHasAllOfTheTimeLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		want, _ := ctx.Deadline()
		assert.ErrorIs(t, process(ctx, lockOrders(guardtest.NewGuard(t)), func(ctx context.Context, _ *asynq.Task) error {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, want, deadline)
			<-ctx.Done()
			assert.False(t, time.Now().Before(want))
			return ctx.Err()
		}), context.DeadlineExceeded)
	})
}

func TestRun_StoreThatDoesNotAnswerInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := guardtest.NewStore()
		store.Fail(errOwn)
		g, err := guard.NewWithStore(store, guard.StoreTimeout(time.Minute))
		require.NoError(t, err)
		defer func() { _ = g.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err = process(ctx, lockOrders(g), never)
		assert.EqualError(t, err, "guard: lock store is unavailable: acquire: no answer in the time that the task has left")
		assert.ErrorIs(t, err, guard.ErrStore)
		assert.NoError(t, ctx.Err())
	})
}

// tooLong lets a grant arrive when the task has hardly any time left.
type tooLong struct{ guard.NopObserver }

func (tooLong) HoldStart(ctx context.Context, _ guard.Lock, _ guard.Hold) context.Context {
	time.Sleep(9500 * time.Millisecond)
	return ctx
}

func TestRun_LockThatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := guardtest.NewStore()
		g, err := guard.NewWithStore(store, guard.Observe(tooLong{}))
		require.NoError(t, err)
		defer func() { _ = g.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.ErrorIs(t, process(ctx, lockOrders(g), never), guard.ErrStore)
		assert.Zero(t, store.Depth("order:7"))
	})
}

func TestRun_KeyThatTakesTooLongIsAKeyError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ *asynq.Task) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := process(ctx, guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.LockFunc(slow)), never)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.NotErrorIs(t, err, guard.ErrStore)
	})
}

// A task for which the lock came too late did not run: it is no success, and not of unknown outcome.
func TestOnce_WhatCameTooLateRunsWhenItComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := guardtest.NewStore()
		slow, err := guard.NewWithStore(store, guard.Observe(tooLong{}))
		require.NoError(t, err)
		defer func() { _ = slow.Close() }()
		rule := orders().Once(time.Hour, guard.AtMostOnce())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.ErrorIs(t, process(ctx, guardasynq.Middleware(slow, rule), never), guard.ErrStore)

		g, err := guard.NewWithStore(store)
		require.NoError(t, err)
		defer func() { _ = g.Close() }()
		runs := 0
		for range 2 {
			assert.NoError(t, process(t.Context(), guardasynq.Middleware(g, rule), func(ctx context.Context, _ *asynq.Task) error {
				_, ok := guard.Earlier(ctx)
				assert.False(t, ok)
				runs++
				return nil
			}))
		}
		assert.Equal(t, 1, runs)
	})
}

// A run that shares its deadline with the task notes its end like any other.
func TestOnce_WithADeadline(t *testing.T) {
	t.Parallel()
	mw := guardasynq.Middleware(guardtest.NewGuard(t), orders().Once(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	assert.Same(t, errOwn, process(ctx, mw, func(context.Context, *asynq.Task) error { return errOwn }))
	assert.NoError(t, process(ctx, mw, succeed))
	assert.NoError(t, process(ctx, mw, never))
}
