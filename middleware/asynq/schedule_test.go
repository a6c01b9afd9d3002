package guardasynq_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// newScheduler makes a Scheduler that enqueues in a queue of the test, and signals each time.
func newScheduler(t *testing.T, enqueued chan<- struct{}) (*asynq.Scheduler, error) {
	scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: redistest.Shared(t).Addr()}, &asynq.SchedulerOpts{
		LogLevel: asynq.FatalLevel, PostEnqueueFunc: func(*asynq.TaskInfo, error) { enqueued <- struct{}{} },
	})
	_, err := scheduler.Register("@every 1s", asynq.NewTask("report", nil), asynq.Queue(strings.ToLower(t.Name())))
	return scheduler, err
}

// A Scheduler cannot be started twice: each term has one of its own.
func TestSchedule_ASchedulerThatLostItsLockIsFollowedByANewOne(t *testing.T) {
	t.Parallel()
	ended, terms := make(chan error), make(chan chan struct{}, 10)
	g, store := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	var made []*asynq.Scheduler
	go func() {
		ended <- guardasynq.Schedule(ctx, g, guard.Key("scheduler"), func() (*asynq.Scheduler, error) {
			enqueued := make(chan struct{}, 1000)
			scheduler, err := newScheduler(t, enqueued)
			made = append(made, scheduler)
			terms <- enqueued
			return scheduler, err
		}, guard.TTL(3*time.Second)) // the first task comes after a second
	}()
	<-<-terms
	store.Drop("scheduler")
	<-<-terms
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	for _, scheduler := range made {
		assert.ErrorContains(t, scheduler.Start(), "already been stopped", "each was shut down")
	}
}

// noEntries is the provider of a PeriodicTaskManager that cannot start.
type noEntries struct{ err error }

func (p noEntries) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return nil, p.err }

func TestSchedule_AFactoryThatFailsEndsSchedule(t *testing.T) {
	t.Parallel()
	boom, key := errors.New("boom"), guard.Key("scheduler")
	g, store := newStore(t)
	client := redistest.Shared(t).Client(t) // a manager that does not start closes no client of its own
	fails := func() (*asynq.Scheduler, error) { return nil, boom }
	assert.Same(t, boom, guardasynq.Schedule(t.Context(), g, key, fails))
	assert.ErrorIs(t, guardasynq.Schedule(guard.WithGuard(t.Context(), g), nil, key, fails), boom)
	assert.ErrorIs(t, guardasynq.SchedulePeriodic(t.Context(), g, key, func() (*asynq.PeriodicTaskManager, error) {
		return asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{PeriodicTaskConfigProvider: noEntries{boom}, RedisUniversalClient: client})
	}), boom, "its Start fails")
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, nil), "make is nil")
	assert.ErrorContains(t, guardasynq.SchedulePeriodic(t.Context(), g, key, nil), "make is nil")
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, func() (*asynq.Scheduler, error) { return nil, nil }), "make returned nil")
	assert.ErrorIs(t, guardasynq.Schedule(t.Context(), g, nil, fails), guard.ErrKey)
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, fails, guard.TTL(1)), "TTL")
	assert.ErrorIs(t, guardasynq.Schedule(t.Context(), nil, key, fails), guard.ErrNoGuard)
	assert.Zero(t, store.Depth("scheduler"))
}
