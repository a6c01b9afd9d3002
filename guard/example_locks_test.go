package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redlatch/redlatch/guard"
)

// A transfer needs both accounts. Nested by hand in the order of the call, two transfers in
// opposite directions wait for each other; WithLocks takes the accounts in one order.
func ExampleGuard_WithLocks() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	balance := map[string]int{"alice": 100, "bob": 100}
	transfer := func(from, to string, amount int) error {
		keys := []guard.KeyFunc{guard.Keyf("account:%s", from), guard.Keyf("account:%s", to)}
		return g.WithLocks(ctx, keys, func(context.Context) error {
			balance[from] -= amount
			balance[to] += amount
			return nil
		})
	}
	var all sync.WaitGroup
	all.Go(func() { fmt.Println(transfer("alice", "bob", 30)) })
	all.Go(func() { fmt.Println(transfer("bob", "alice", 10)) })
	all.Wait()
	fmt.Println(balance["alice"], balance["bob"])
	// Output:
	// <nil>
	// <nil>
	// 80 120
}

// The work has a lease of each key, and with it a fence for what each key stands for.
func ExampleGuard_WithLocks_fences() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	keys := []guard.KeyFunc{guard.Key("account:alice"), guard.Key("account:bob")}
	err := g.WithLocks(ctx, keys, func(ctx context.Context) error {
		alice, _ := guard.Held(ctx, "account:alice")
		bob, _ := guard.Held(ctx, "account:bob")
		fmt.Println(alice.Fence() > 0, bob.Fence() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}

func ExampleWithLocks() {
	g, _ := exampleGuard()
	defer g.Close()
	ctx := guard.WithGuard(context.Background(), g) // as middleware does

	keys := []guard.KeyFunc{guard.Key("seat:12A"), guard.Key("seat:12B")}
	err := guard.WithLocks(ctx, keys, func(context.Context) error {
		fmt.Println("booked both seats")
		return nil
	})
	fmt.Println(err)
	// Output:
	// booked both seats
	// <nil>
}

func ExampleGuard_AcquireAll() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	// One seat is taken: neither is had.
	taken, _ := g.Acquire(ctx, guard.Key("seat:12B"))
	keys := []guard.KeyFunc{guard.Key("seat:12A"), guard.Key("seat:12B")}
	_, err := g.AcquireAll(ctx, keys, guard.NoWait())
	fmt.Println(err)
	_ = taken.Release(ctx)

	leases, err := g.AcquireAll(ctx, keys)
	if err != nil {
		return
	}
	defer leases.Release(ctx)
	for _, lease := range leases.All() {
		fmt.Println(lease.Key(), lease.Err())
	}
	fmt.Println(leases.Context().Err())
	// Output:
	// guard: lock "default" is busy
	// seat:12A <nil>
	// seat:12B <nil>
	// <nil>
}

// A million ids share 64 locks. Two ids may share one, so what needs both takes both at once.
func ExampleStripe() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	account := func(id string) guard.KeyFunc { return guard.Stripe(64, guard.Keyf("account:%s", id)) }
	keys := []guard.KeyFunc{account("alice"), account("bob")}
	err := g.WithLocks(ctx, keys, func(context.Context) error {
		fmt.Println("moved the money")
		return nil
	})
	fmt.Println(err)
	fmt.Println(guard.StripeKey(64, guard.JoinKey("account", "alice")))
	// Output:
	// moved the money
	// <nil>
	// stripe:64:17
}

// A lease says what kind of lock it is of.
func ExampleLease_Name() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	err := g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
		lease, _ := guard.FromContext(ctx)
		fmt.Println(lease.Name())
		return nil
	}, guard.Name("order-payment"))
	fmt.Println(err)
	// Output:
	// order-payment
	// <nil>
}

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
