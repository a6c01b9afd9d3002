package guard_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// One caller at a time works on an order, in all processes with the same Redis.
func Example_short() {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	defer func() { _ = g.Close() }()
	ctx, order := context.Background(), "42"
	charge := func(context.Context, string) error { return nil }

	err = g.WithLock(ctx, guard.Keyf("order:%s", order), func(ctx context.Context) error {
		return charge(ctx, order) // ctx ends if the lock is lost
	}, guard.Wait(2*time.Second)) // without Wait: for as long as ctx lives
	fmt.Println(err)
	// Output: <nil>
}
