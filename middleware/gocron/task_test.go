package guardgocron_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
)

// results collects what runs returned.
func results(errs chan<- error) gocron.EventListener {
	return gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { errs <- err })
}

func TestTask_ATaskIsToldOfTheLossOfItsLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s, guard.TTL(time.Second))
		errs := make(chan error, 100)
		scheduler := newScheduler(t)
		everySecond(t, scheduler, "report", gocron.NewTask(guardgocron.Task(g, guard.Key("report"), func(ctx context.Context) error {
			lease, ok := guard.Held(ctx, "report")
			assert.True(t, ok && lease.Err() == nil)
			s.Drop("report")
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
			return nil
		})), results(errs))
		require.ErrorIs(t, <-errs, guard.ErrLost)
	})
}

func TestTask_ATaskThatRunsElsewhereIsBusyAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s, guard.Wait(time.Minute))
		boom := errors.New("boom")
		task := guardgocron.Task(g, guard.Key("report"), func(context.Context) error { return boom })
		held, err := newGuard(t, s).Acquire(t.Context(), guard.Key("report"))
		require.NoError(t, err)
		begun := time.Now()
		require.ErrorIs(t, task(t.Context()), guard.ErrBusy)
		assert.Zero(t, time.Since(begun))

		errs := make(chan error, 100)
		everySecond(t, newScheduler(t), "report", gocron.NewTask(task), results(errs))
		require.ErrorIs(t, <-errs, guard.ErrBusy)
		require.NoError(t, held.Release(t.Context()))
		for err = <-errs; errors.Is(err, guard.ErrBusy); err = <-errs { // until it is its turn
		}
		assert.Same(t, boom, err)

		waits := guardgocron.Task(g, guard.Key("report"), func(context.Context) error { return nil }, guard.Wait(time.Second))
		require.NoError(t, waits(t.Context()))
	})
}

func TestTask_ATaskFindsItsGuard(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		task := guardgocron.Task(nil, guard.Key("report"), func(context.Context) error { return nil })
		require.NoError(t, task(guard.WithGuard(t.Context(), newGuard(t, s))))
		require.ErrorIs(t, task(t.Context()), guard.ErrNoGuard)
	})
	never := func(context.Context) error { panic("ran") }
	assert.PanicsWithValue(t, "guardgocron: no KeyFunc", func() { guardgocron.Task(nil, nil, never) })
	assert.PanicsWithValue(t, "guardgocron: no function", func() { guardgocron.Task(nil, guard.Key("report"), nil) })
	assert.Panics(t, func() { guardgocron.Task(nil, guard.Key("report"), never, guard.TTL(1)) })
}
