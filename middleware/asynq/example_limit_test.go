package guardasynq_test

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// Three tasks of a kind at a time for each tenant. The others come back later, and no retry is
// counted for that.
func ExampleLock_limit() {
	g := newGuard()
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Annotate(g, guardasynq.Tasks{
		"export:run": guardasynq.Lock("export:{tenant}", guard.Limit(3)),
	}))
	tasks.HandleFunc("export:run", func(ctx context.Context, _ *asynq.Task) error {
		lease, _ := guard.FromContext(ctx)
		fmt.Println(lease.Key(), "with at most", lease.Limit())
		return nil
	})
	fmt.Println(tasks.ProcessTask(context.Background(), asynq.NewTask("export:run", []byte(`{"tenant":"acme"}`))))
	// Output:
	// export:acme with at most 3
	// <nil>
}
