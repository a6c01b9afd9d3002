package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// The second process has its tick a moment later, when the job of the first one is done.
func ExampleMinHold() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	report := func(context.Context) error {
		fmt.Println("report")
		return nil
	}

	for range 2 {
		err := g.WithLock(ctx, guard.Key("report"), report, guard.NoWait(), guard.MinHold(50*time.Second))
		var busy *guard.BusyError
		if errors.As(err, &busy) && busy.Done {
			fmt.Println("it ran already")
		}
	}
	// Output:
	// report
	// it ran already
}
