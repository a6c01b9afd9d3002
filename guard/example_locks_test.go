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
	g, _ := exampleGuard()
	defer g.Close()
	ctx := context.Background()

	keys := []guard.KeyFunc{guard.Key("account:alice"), guard.Key("account:bob")}
	err := g.WithLocks(ctx, keys, func(ctx context.Context) error {
		alice, _ := guard.Held(ctx, guard.Key("account:alice"))
		bob, _ := guard.Held(ctx, guard.Key("account:bob"))
		fmt.Println(alice.Fence() > 0, bob.Fence() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}

// A million ids share 64 locks. Two ids may share one, so what needs both takes both at once.
func ExampleStripe() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	account := func(id string) guard.KeyFunc { return guard.Stripe(64, guard.Keyf("account:%s", id)) }
	keys := []guard.KeyFunc{account("alice"), account("bob")}
	fmt.Println(g.WithLocks(ctx, keys, nothing))
	key, err := account("alice")(ctx)
	fmt.Println(key, err)
	// Output:
	// <nil>
	// stripe:64:17 <nil>
}

// Two exports at a time for each tenant, in all processes together.
func ExampleLimit() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	atMostTwo := []guard.LockOption{guard.Limit(2), guard.NoWait(), guard.Name("export")}

	first, second := held(g, guard.Key("export:acme"), atMostTwo...), held(g, guard.Key("export:acme"), atMostTwo...)
	err := g.WithLock(ctx, guard.Key("export:acme"), doesNotRun, atMostTwo...)
	var busy *guard.BusyError
	if errors.As(err, &busy) {
		fmt.Println(busy, "with a limit of", busy.Limit)
	}
	fmt.Println(first.Release(ctx), second.Release(ctx))
	// Output:
	// guard: lock "export" is busy with a limit of 2
	// <nil> <nil>
}

// Readers work beside each other; a writer waits until they are out. A reader cannot become a
// writer: it would wait for itself.
func ExampleShared() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	rates := guard.Key("rates")

	reader := held(g, rates, guard.Shared())
	fmt.Println(g.WithLock(ctx, rates, nothing, guard.Shared()))
	fmt.Println(g.WithLock(ctx, rates, doesNotRun, guard.NoWait()))
	err := g.WithLock(reader.Context(), rates, doesNotRun)
	fmt.Println(errors.Is(err, guard.ErrOption), err)
	// Output:
	// <nil>
	// guard: lock is busy
	// true guard: ctx holds the key with Shared, and the call wants it with Limit(1), exclusively: release it first
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
