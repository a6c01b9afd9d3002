package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Before a step that cannot be taken back, ask Redis instead of waiting for the next renewal.
func ExampleLease_Check() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	lease, err := g.Acquire(ctx, guard.Key("order:42"))
	if err != nil {
		panic(err)
	}

	fmt.Println(lease.Check(ctx))
	store.Drop("order:42") // somebody deleted the key
	fmt.Println(errors.Is(lease.Check(ctx), guard.ErrLost), lease.Context().Err())
	// Output:
	// <nil>
	// true context canceled
}

// What this process holds, for its own page of health.
func ExampleGuard_Leases() {
	g, _ := exampleGuard()
	defer g.Close()
	err := g.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error {
		for _, l := range g.Leases() {
			fmt.Println(l.Name, l.Key, l.Depth, l.Waiting)
		}
		return nil
	}, guard.Name("pay"))
	fmt.Println(err, len(g.Leases()))
	// Output:
	// pay order:42 1 0
	// <nil> 0
}

// A probe of readiness: without Redis, this process can lock nothing.
func ExampleGuard_Ping() {
	g, store := exampleGuard()
	defer g.Close()
	ready := func() bool { return g.Ping(context.Background()) == nil }

	fmt.Println(ready())
	store.Fail(&guardstore.RefusedError{Err: errors.New("READONLY")})
	fmt.Println(ready(), errors.Is(g.Ping(context.Background()), guard.ErrStore))
	// Output:
	// true
	// false true
}

// Whoever looks at locks sees a name instead of an id.
func ExampleInstance() {
	server, err := guardtest.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()

	g, err := guard.New(server.Client(), guard.Instance("payments-7"))
	if err != nil {
		panic(err)
	}
	defer g.Close()
	err = g.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error { return nil })
	fmt.Println(err)
	// Output: <nil>
}
