package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// newGuard stands for guard.New(redisClient).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
	tasks.HandleFunc("order:charge", func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := guard.FromContext(ctx)
		fmt.Println("charging under", lease.Key())
		return nil
	})

	// An asynq.Server would do this.
	err := tasks.ProcessTask(context.Background(), asynq.NewTask("order:charge", []byte(`{"order_id":42}`)))
	fmt.Println(err)
	err = tasks.ProcessTask(context.Background(), asynq.NewTask("order:charge", []byte(`{}`)))
	fmt.Println(errors.Is(err, asynq.SkipRetry))
	// Output:
	// charging under order:42
	// <nil>
	// true
}

func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Annotate(g, guardasynq.Tasks{
		"order:":       guardasynq.Lock("order:{order_id}"),
		"report:build": guardasynq.Lock("report:{day}", guard.NoWait()).OnBusy(guardasynq.Drop),
	}))
	say := func(ctx context.Context, t *asynq.Task) error {
		lease, ok := guard.FromContext(ctx)
		if !ok {
			fmt.Println(t.Type(), "without a lock")
			return nil
		}
		fmt.Println(t.Type(), "under", lease.Key())
		return nil
	}
	for _, pattern := range []string{"order:", "report:", "mail:"} {
		tasks.HandleFunc(pattern, say)
	}

	ctx := context.Background()
	for _, kind := range []string{"order:charge", "report:build", "mail:send"} {
		if err := tasks.ProcessTask(ctx, asynq.NewTask(kind, []byte(`{"order_id":42,"day":"monday"}`))); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// order:charge under order:42
	// report:build under report:monday
	// mail:send without a lock
}

func ExampleConfigure() {
	redisOpt := asynq.RedisClientOpt{Addr: "localhost:6379"}
	srv := asynq.NewServer(redisOpt, guardasynq.Configure(asynq.Config{Concurrency: 10}))
	defer srv.Shutdown()
}

// A row that no task has would lock nothing, so a program checks before it serves.
func ExampleCheck() {
	types := []string{"order:charge", "order:refund", "report:build"}
	tasks := guardasynq.Tasks{
		"order:":        guardasynq.Lock("order:{order_id}"),
		"reports:build": guardasynq.Lock("report:{day}"),
	}
	fmt.Println(guardasynq.Check(types, tasks))
	// Output: guardasynq: row "reports:build": no task of the given types has it
}

// A task that is delivered again is acknowledged without a second charge. A task that crashed is archived, for a
// person to look at.
func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("charge:{order_id}").Once(7*24*time.Hour, guard.AtMostOnce())))
	tasks.HandleFunc("order:charge", func(context.Context, *asynq.Task) error {
		fmt.Println("charged")
		return nil
	})

	// An asynq.Server would do this.
	deliver := func(payload string) error {
		return tasks.ProcessTask(context.Background(), asynq.NewTask("order:charge", []byte(payload)))
	}
	fmt.Println(deliver(`{"order_id":42,"amount":10}`))
	fmt.Println(deliver(`{"order_id":42,"amount":10}`))
	err := deliver(`{"order_id":42,"amount":99}`)
	fmt.Println(errors.Is(err, guard.ErrOtherInput), errors.Is(err, asynq.SkipRetry))
	// Output:
	// charged
	// <nil>
	// <nil>
	// true true
}

// All servers call this; one of them enqueues.
func ExampleSchedule() {
	server, err := embedded.Start()
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
	g := newGuard()
	defer g.Close()
	ctx := context.Background() // of the process

	err := guardasynq.SchedulePeriodic(ctx, g, guard.Key("periodic"), func() (*asynq.PeriodicTaskManager, error) {
		return asynq.NewPeriodicTaskManager(asynq.PeriodicTaskManagerOpts{
			RedisConnOpt:               asynq.RedisClientOpt{Addr: "localhost:6379"},
			PeriodicTaskConfigProvider: daily{},
		})
	})
	fmt.Println(err)
}

// The second task does not run, and has the result of the first.
func ExampleResultWriter() {
	g := newGuard()
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("charge:{order_id}").Once(7*24*time.Hour)))
	tasks.HandleFunc("order:charge", func(ctx context.Context, t *asynq.Task) error {
		_, err := guardasynq.ResultWriter(ctx, t).Write([]byte("receipt 1042"))
		fmt.Println("charged")
		return err
	})

	// An asynq.Server would do this.
	for range 2 {
		fmt.Println(tasks.ProcessTask(context.Background(), asynq.NewTask("order:charge", []byte(`{"order_id":42}`))))
	}
	// Output:
	// charged
	// <nil>
	// <nil>
}

// handlers stands for the handlers of a program.
func handlers(g *guard.Guard) *asynq.ServeMux {
	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("order:{order_id}")))
	tasks.HandleFunc("order:charge", func(context.Context, *asynq.Task) error { return nil })
	return tasks
}

// The test in docs/guides/asynq.md.
func TestGuide_ABusyTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another task has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		err = handlers(g).ProcessTask(t.Context(), asynq.NewTask("order:charge", []byte(`{"order_id":42}`)))
		if !errors.Is(err, guard.ErrBusy) {
			t.Errorf("got %v, want a busy lock", err)
		}
	})
}
