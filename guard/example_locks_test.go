package guard_test

import (
	"context"
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
