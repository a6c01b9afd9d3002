package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/guard"
)

// One of many instances runs the loop. When it ends or dies, another one does.
func ExampleGuard_Lead() {
	g, _ := exampleGuard(guard.Name("outbox"))
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background()) // of the process, as signal.NotifyContext gives it
	events := []string{"order 1 was paid", "order 2 was paid"}

	err := g.Lead(ctx, guard.Key("outbox"), func(ctx context.Context) error {
		for ctx.Err() == nil {
			if len(events) == 0 {
				cancel() // the process is told to end
				continue
			}
			fmt.Println(events[0])
			events = events[1:]
		}
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// order 1 was paid
	// order 2 was paid
	// true
}
