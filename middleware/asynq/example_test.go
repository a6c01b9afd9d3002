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
	tasks.Use(guardasynq.Middleware(g, guardasynq.Key("order:{order_id}")))
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

func ExampleConfigure() {
	redis := asynq.RedisClientOpt{Addr: "localhost:6379"}
	srv := asynq.NewServer(redis, guardasynq.Configure(asynq.Config{Concurrency: 10}))
	defer srv.Shutdown()
}
