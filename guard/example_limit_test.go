package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/guard"
)

// Two exports at a time for each tenant, in all processes together.
func ExampleLimit() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	export := func(context.Context) error { panic("does not run") }
	atMostTwo := []guard.LockOption{guard.Limit(2), guard.NoWait(), guard.Name("export")}

	first, _ := g.Acquire(ctx, guard.Key("export:acme"), atMostTwo...)
	second, _ := g.Acquire(ctx, guard.Key("export:acme"), atMostTwo...)
	err := g.WithLock(ctx, guard.Key("export:acme"), export, atMostTwo...)
	var busy *guard.BusyError
	if errors.As(err, &busy) {
		fmt.Println(busy, "with a limit of", busy.Limit)
	}
	fmt.Println(first.Release(ctx), second.Release(ctx))
	// Output:
	// guard: lock "export" is busy with a limit of 2
	// <nil> <nil>
}

// Readers work beside each other; a writer waits until they are out.
func ExampleShared() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	rates := guard.Key("rates")

	reader, _ := g.Acquire(ctx, rates, guard.Shared())
	err := g.WithLock(ctx, rates, func(context.Context) error {
		fmt.Println("two readers")
		return nil
	}, guard.Shared())
	fmt.Println(err)

	write := func(context.Context) error { panic("does not run") }
	fmt.Println(g.WithLock(ctx, rates, write, guard.NoWait()))
	fmt.Println(reader.Release(ctx))
	// Output:
	// two readers
	// <nil>
	// guard: lock "default" is busy
	// <nil>
}

// A reader cannot become a writer: it would wait for itself.
func ExampleUpgradeError() {
	g, _ := exampleGuard()
	defer g.Close()
	rates := guard.Key("rates")
	write := func(context.Context) error { panic("does not run") }

	err := g.WithLock(context.Background(), rates, func(ctx context.Context) error {
		return g.WithLock(ctx, rates, write)
	}, guard.Shared())
	fmt.Println(errors.Is(err, guard.ErrUpgrade))
	fmt.Println(err)
	// Output:
	// true
	// guard: lock "default" is held with Shared, and wanted with Limit(1), exclusively: release it first
}

// How many may be inside beside a lease.
func ExampleLease_Limit() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	for _, opts := range [][]guard.LockOption{nil, {guard.Limit(3)}, {guard.Shared()}} {
		lease, err := g.Acquire(ctx, guard.Key("k"), opts...)
		if err != nil {
			panic(err)
		}
		fmt.Println(lease.Limit())
		_ = lease.Release(ctx)
	}
	// Output:
	// 1
	// 3
	// 0
}

// Readers beside readers, a writer alone, and three exports at a time for each tenant.
func Example_limits() {
	ctx, tenant := context.Background(), "acme"
	g, _ := exampleGuard()
	defer g.Close()
	read := func(context.Context) error { fmt.Println("read"); return nil }
	replace := func(context.Context) error { fmt.Println("replaced"); return nil }
	export := func(context.Context) error { fmt.Println("exported"); return nil }

	_ = g.WithLock(ctx, guard.Key("rates"), read, guard.Shared())                // beside other readers
	_ = g.WithLock(ctx, guard.Key("rates"), replace)                             // alone, as any lock
	_ = g.WithLock(ctx, guard.Keyf("export:%s", tenant), export, guard.Limit(3)) // three for a tenant
	// Output:
	// read
	// replaced
	// exported
}
