package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// All servers call this; one of them enqueues.
func ExampleSchedule() {
	server, err := guardtest.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g, err := guard.New(server.Client())
	if err != nil {
		panic(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background()) // of the process
	enqueued := func(task *asynq.TaskInfo, err error) {
		fmt.Println(task.Type, err)
		cancel()
	}

	err = guardasynq.Schedule(ctx, g, guard.Key("scheduler"), func() (*asynq.Scheduler, error) {
		s := asynq.NewSchedulerFromRedisClient(server.Client(), &asynq.SchedulerOpts{PostEnqueueFunc: enqueued, LogLevel: asynq.FatalLevel})
		_, err := s.Register("@every 1s", asynq.NewTask("report:build", nil))
		return s, err
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// report:build <nil>
	// true
}

// daily is an asynq.PeriodicTaskConfigProvider: it reads the entries from a database, say.
type daily struct{}

// GetConfigs implements asynq.PeriodicTaskConfigProvider.
func (daily) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	return []*asynq.PeriodicTaskConfig{{Cronspec: "@every 1s", Task: asynq.NewTask("report:build", nil)}}, nil
}

// The same for entries that change while the program runs.
func ExampleSchedulePeriodic() {
	server, err := guardtest.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g, err := guard.New(server.Client())
	if err != nil {
		panic(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background()) // of the process
	var first sync.Once
	enqueued := func(task *asynq.TaskInfo, err error) {
		first.Do(func() { fmt.Println(task.Type, err) })
		cancel()
	}

	err = guardasynq.SchedulePeriodic(ctx, g, guard.Key("periodic"), func() (*asynq.PeriodicTaskManager, error) {
		return asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
			RedisConnOpt:               asynq.RedisClientOpt{Addr: server.Addr()},
			PeriodicTaskConfigProvider: daily{},
			SchedulerOpts:              &asynq.SchedulerOpts{PostEnqueueFunc: enqueued, LogLevel: asynq.FatalLevel},
		})
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// report:build <nil>
	// true
}
