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
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// scheduling are instances that run the same schedule.
type scheduling struct {
	t        *testing.T
	queue    string
	enqueued chan int // by which instance
}

func newScheduling(t *testing.T) *scheduling {
	return &scheduling{t, strings.ToLower(t.Name()), make(chan int, 1000)}
}

func (s *scheduling) opts(instance int) *asynq.SchedulerOpts {
	return &asynq.SchedulerOpts{
		LogLevel:        asynq.FatalLevel,
		PostEnqueueFunc: func(*asynq.TaskInfo, error) { s.enqueued <- instance },
	}
}

func (s *scheduling) create(instance int) func() (*asynq.Scheduler, error) {
	return func() (*asynq.Scheduler, error) {
		scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: redistest.Shared(s.t).Addr()}, s.opts(instance))
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

// next gives the instance that enqueued next.
func (s *scheduling) next() int {
	s.t.Helper()
	select {
	case instance := <-s.enqueued:
		return instance
	case <-time.After(patience):
		s.t.Fatal("none enqueues")
		return 0
	}
}

func TestSchedule_OneOfManySchedulesAndTheNextTakesOver(t *testing.T) {
	t.Parallel()
	key := guard.Key("scheduler")
	for name, schedule := range map[string]func(context.Context, *scheduling, *guard.Guard, int) error{
		"Scheduler": func(ctx context.Context, s *scheduling, g *guard.Guard, instance int) error {
			return guardasynq.Schedule(ctx, g, key, s.create(instance))
		},
		"PeriodicTaskManager": func(ctx context.Context, s *scheduling, g *guard.Guard, instance int) error {
			return guardasynq.SchedulePeriodic(ctx, g, key, s.createPeriodic(instance, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ended, store := newScheduling(t), make(chan error, 2), guardtest.NewStore()
			begin := func(instance int) (end context.CancelFunc) {
				g, err := guard.NewWithStore(store)
				assert.NoError(t, err)
				t.Cleanup(func() { _ = g.Close() })
				ctx, cancel := context.WithCancel(t.Context())
				go func() { ended <- schedule(ctx, s, g, instance) }()
				return cancel
			}
			end := begin(0)
			assert.Equal(t, 0, s.next())
			endLater := begin(1)
			assert.Equal(t, 0, s.next(), "one at a time")
			end()
			for s.next() == 0 { // what it had enqueued before
			}
			assert.Equal(t, 1, s.next())
			endLater()
			for range 2 {
				assert.ErrorIs(t, <-ended, context.Canceled)
			}
		})
	}
}

// A Scheduler cannot be started twice: each term has one of its own.
func TestSchedule_ASchedulerThatLostItsLockIsFollowedByANewOne(t *testing.T) {
	t.Parallel()
	s, ended, terms := newScheduling(t), make(chan error), make(chan struct{}, 10)
	g, store := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	var made []*asynq.Scheduler
	go func() {
		ended <- guardasynq.Schedule(ctx, g, guard.Key("scheduler"), func() (*asynq.Scheduler, error) {
			scheduler, err := s.create(len(made))()
			made = append(made, scheduler)
			terms <- struct{}{}
			return scheduler, err
		}, guard.TTL(3*time.Second)) // the first task comes after a second
	}()
	<-terms
	assert.Equal(t, 0, s.next())
	store.Drop("scheduler")
	<-terms
	for s.next() == 0 { // what it had enqueued before
	}
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	for _, scheduler := range made {
		assert.ErrorContains(t, scheduler.Start(), "already been stopped", "each was shut down")
	}
}

func TestSchedule_AFactoryThatFailsEndsSchedule(t *testing.T) {
	t.Parallel()
	s, boom, key := newScheduling(t), errors.New("boom"), guard.Key("scheduler")
	g, store := newStore(t)
	fails := func() (*asynq.Scheduler, error) { return nil, boom }
	assert.Same(t, boom, guardasynq.Schedule(t.Context(), g, key, fails))
	assert.ErrorIs(t, guardasynq.Schedule(guard.WithGuard(t.Context(), g), nil, key, fails), boom)
	assert.ErrorIs(t, guardasynq.SchedulePeriodic(t.Context(), g, key, s.createPeriodic(0, boom)), boom, "its Start fails")
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, nil), "make is nil")
	assert.ErrorContains(t, guardasynq.SchedulePeriodic(t.Context(), g, key, nil), "make is nil")
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, func() (*asynq.Scheduler, error) { return nil, nil }), "make returned nil")
	assert.ErrorIs(t, guardasynq.Schedule(t.Context(), g, nil, s.create(0)), guard.ErrKey)
	assert.ErrorContains(t, guardasynq.Schedule(t.Context(), g, key, s.create(0), guard.TTL(1)), "TTL")
	assert.ErrorIs(t, guardasynq.Schedule(t.Context(), nil, key, s.create(0)), guard.ErrNoGuard)
	assert.Zero(t, store.Depth("scheduler"))
}
