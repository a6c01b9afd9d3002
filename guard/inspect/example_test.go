package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/inspect"
)

// newServerAndGuard makes a Redis and a Guard on it.
func newServerAndGuard() (*embedded.Server, *guard.Guard) {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	g, err := guard.New(server.Client(), guard.Instance("web-1"))
	if err != nil {
		panic(err)
	}
	return server, g
}

// Order 42 hangs. Its hold is ended, and the next caller gets in when its work has returned.
func ExampleInspector_Revoke() {
	server, g := newServerAndGuard()
	defer server.Close()
	defer g.Close()
	i := inspect.New(server.Client())

	err := g.WithLock(context.Background(), guard.Key("order:42"), func(ctx context.Context) error {
		info, err := i.Get(ctx, "order:42")
		if err != nil {
			return err
		}
		there, err := i.Revoke(ctx, "order:42", info.Holders[0].Fence)
		fmt.Println(there, err)
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, guard.ErrRevoked))
	// Output:
	// true <nil>
	// true
}

// Who holds order 42?
func ExampleInspector_Get() {
	server, g := newServerAndGuard()
	defer server.Close()
	defer g.Close()
	i := inspect.New(server.Client())

	err := g.WithLock(context.Background(), guard.Key("order:42"), func(ctx context.Context) error {
		info, err := i.Get(ctx, "order:42")
		for _, h := range info.Holders {
			fmt.Println(info.Key, "is held:", h.Metadata, h.Left > 29*time.Second)
		}
		return err
	}, guard.Metadata("request 7"))
	fmt.Println(err)
	info, err := i.Get(context.Background(), "order:42")
	fmt.Println(len(info.Holders), "holders", err)
	// Output:
	// order:42 is held: request 7 true
	// <nil>
	// 0 holders <nil>
}

// All orders that are held now.
func ExampleInspector_All() {
	ctx := context.Background()
	server, g := newServerAndGuard()
	defer server.Close()
	defer g.Close()
	for _, key := range []string{"order:42", "order:43", "report"} {
		lease, err := g.Acquire(ctx, guard.Key(key))
		if err != nil {
			panic(err)
		}
		defer lease.Release(ctx)
	}

	var held []string
	for info, err := range inspect.New(server.Client()).All(ctx, "order:*") {
		if errors.Is(err, inspect.ErrFormat) {
			continue // what is there is no lock: the others are shown
		}
		if err != nil {
			panic(err) // it ends here
		}
		held = append(held, info.Key)
	}
	slices.Sort(held)
	fmt.Println(held)
	// Output: [order:42 order:43]
}
