package guard_test

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func ExampleAsyncRelease() {
	ctx := context.Background()
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	defer func() { _ = g.Close() }() // sends the releases that are on their way

	err = g.WithLock(ctx, guard.Key("view:7"), func(context.Context) error {
		fmt.Println("counted")
		return nil
	}, guard.AsyncRelease())
	fmt.Println(err)
	// Output:
	// counted
	// <nil>
}
