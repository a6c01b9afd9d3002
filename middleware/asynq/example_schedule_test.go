package guardasynq_test

import (
	"context"
	"errors"
	"fmt"

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
