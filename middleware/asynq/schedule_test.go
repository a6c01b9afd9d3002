package guardasynq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// scheduling are instances that run the same schedule.
type scheduling struct {
	t        *testing.T
	store    *guardtest.Store
	queue    string
	enqueued chan int // by which instance
}

func newScheduling(t *testing.T) *scheduling {
	t.Helper()
	return &scheduling{t, guardtest.NewStore(), strings.ToLower(t.Name()), make(chan int, 1000)}
}

func (s *scheduling) opts(instance int) *asynq.SchedulerOpts {
	return &asynq.SchedulerOpts{
		LogLevel:        asynq.FatalLevel,
		PostEnqueueFunc: func(*asynq.TaskInfo, error) { s.enqueued <- instance },
	}
}

func (s *scheduling) redis() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: redistest.Shared(s.t).Addr()}
}

func (s *scheduling) create(instance int) func() (*asynq.Scheduler, error) {
	return func() (*asynq.Scheduler, error) {
		scheduler := asynq.NewScheduler(s.redis(), s.opts(instance))
		_, err := scheduler.Register("@every 1s", asynq.NewTask("report", nil), asynq.Queue(s.queue))
		return scheduler, err
	}
}

// provider is the one of a PeriodicTaskManager.
type provider struct {
	queue string
	err   error
}

func (p provider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	opts := []asynq.Option{asynq.Queue(p.queue)}
	return []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1s", Task: asynq.NewTask("report", nil), Opts: opts}}, p.err
}

func (s *scheduling) createPeriodic(instance int, err error) func() (*asynq.PeriodicTaskManager, error) {
	client := redistest.Shared(s.t).Client(s.t) // a manager that does not start closes no client of its own
	return func() (*asynq.PeriodicTaskManager, error) {
		return asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
			PeriodicTaskConfigProvider: provider{s.queue, err}, RedisUniversalClient: client, SchedulerOpts: s.opts(instance),
		})
	}
}

func (s *scheduling) newGuard() *guard.Guard {
	s.t.Helper()
	g, err := guard.NewWithStore(s.store)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = g.Close() })
	return g
}

// next gives the instance that enqueued next.
func (s *scheduling) next() int {
	s.t.Helper()
	select {
	case instance := <-s.enqueued:
		return instance
	case <-time.After(patience):
		s.t.Fatal("nobody enqueues")
		return 0
	}
}

// takesOver has instance 0 schedule, then end, and instance 1 take over.
func (s *scheduling) takesOver(schedule func(ctx context.Context, instance int) error) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.ErrorIs(s.t, schedule(ctx, 0), context.Canceled) })
	assert.Equal(s.t, 0, s.next())
	later, cancelLater := context.WithCancel(s.t.Context())
	wg.Go(func() { assert.ErrorIs(s.t, schedule(later, 1), context.Canceled) })
	assert.Equal(s.t, 0, s.next(), "one at a time")
	cancel()
	for s.next() == 0 { // what it had enqueued before
	}
	assert.Equal(s.t, 1, s.next())
	cancelLater()
	wg.Wait()
}

func TestSchedule_OneOfManySchedulesAndTheNextTakesOver(t *testing.T) {
	t.Parallel()
	s := newScheduling(t)
	guards := []*guard.Guard{s.newGuard(), s.newGuard()}
	s.takesOver(func(ctx context.Context, instance int) error {
		return guardasynq.Schedule(ctx, guards[instance], guard.Key("scheduler"), s.create(instance))
	})
}

func TestSchedule_TheSameForAPeriodicTaskManager(t *testing.T) {
	t.Parallel()
	s := newScheduling(t)
	guards := []*guard.Guard{s.newGuard(), s.newGuard()}
	s.takesOver(func(ctx context.Context, instance int) error {
		return guardasynq.SchedulePeriodic(ctx, guards[instance], guard.Key("scheduler"), s.createPeriodic(instance, nil))
	})
}

// A Scheduler cannot be started twice: each term has one of its own.
func TestSchedule_ASchedulerThatLostItsLockIsFollowedByANewOne(t *testing.T) {
	t.Parallel()
	s := newScheduling(t)
	ctx, cancel := context.WithCancel(t.Context())
	var made []*asynq.Scheduler
	terms := make(chan struct{}, 10)
	ended := make(chan error)
	g := s.newGuard()
	go func() {
		ended <- guardasynq.Schedule(ctx, g, guard.Key("scheduler"), func() (*asynq.Scheduler, error) {
			scheduler, err := s.create(len(made))()
			made = append(made, scheduler)
			terms <- struct{}{}
			return scheduler, err
		}, guard.TTL(3*time.Second))
	}()
	<-terms
	assert.Equal(t, 0, s.next())
	s.store.Drop("scheduler")
	<-terms
	for s.next() == 0 { // what it had enqueued before
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	for _, scheduler := range made {
		assert.ErrorContains(t, scheduler.Start(), "already been stopped", "each was shut down")
	}
}

func TestSchedule_AFactoryThatFailsEndsSchedule(t *testing.T) {
	t.Parallel()
	s, boom := newScheduling(t), errors.New("boom")
	g, key := s.newGuard(), guard.Key("scheduler")
	assert.Same(t, boom, guardasynq.Schedule(t.Context(), g, key, func() (*asynq.Scheduler, error) { return nil, boom }))
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, nil), "make is nil")
	assert.ErrorContains(t, guardasynq.SchedulePeriodic(t.Context(), g, key, nil), "make is nil")
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, func() (*asynq.Scheduler, error) { return nil, nil }), "make returned nil")
	assert.ErrorIs(t, guardasynq.SchedulePeriodic(t.Context(), g, key, s.createPeriodic(0, boom)), boom, "its Start fails")
	assert.ErrorIs(t, guardasynq.Schedule(t.Context(), g, nil, s.create(0)), guard.ErrKey)
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, s.create(0), guard.TTL(1)), "TTL")
	assert.ErrorIs(t, guardasynq.Schedule(t.Context(), nil, key, s.create(0)), guard.ErrNoGuard)
	assert.ErrorIs(t, guardasynq.Schedule(guard.WithGuard(t.Context(), g), nil, key, func() (*asynq.Scheduler, error) { return nil, boom }), boom)
	assert.Equal(t, 0, s.store.Depth("scheduler"))
}
