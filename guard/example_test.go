package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/embedded"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

var order = guard.Key("order:42")

// exampleGuard stands for guard.New(rdb): it makes a Guard on a store in memory. The
// store lets an example look at a lock, take it away (Drop) and break down (Fail).
func exampleGuard(opts ...guard.Option) (*guard.Guard, *guardtest.Store) {
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, opts...)
	if err != nil {
		panic(err)
	}
	return g, store
}

// held takes a key.
func held(g *guard.Guard, key guard.KeyFunc, opts ...guard.LockOption) *guard.Lease {
	lease, err := g.Acquire(context.Background(), key, opts...)
	if err != nil {
		panic(err)
	}
	return lease
}

func doesNotRun(context.Context) error { panic("it runs") }

// One caller at a time works on an order, in all processes with the same Redis. An embedded
// one stands for it here: rdb is any go-redis client.
func Example() {
	ctx, order := context.Background(), "42"
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := server.Client()

	g, err := guard.New(rdb, guard.Instance("payments-7")) // the name of this process, for operators
	if err != nil {
		panic(err)
	}
	defer g.Close()

	err = g.WithLock(ctx, guard.Keyf("order:%s", order), func(ctx context.Context) error {
		if paid(order) {
			return nil // an earlier caller paid
		}
		return charge(ctx, order) // ctx ends if the lock is lost
	}, guard.Wait(2*time.Second)) // without Wait: waits until ctx ends
	fmt.Println(err)
	// Output:
	// charged order 42
	// <nil>
}

func paid(string) bool { return false }

func charge(ctx context.Context, order string) error {
	fmt.Println("charged order", order)
	return ctx.Err()
}

// Locking a key that the context holds joins the hold: it neither waits nor deadlocks,
// and the outermost call is the one that releases.
func ExampleGuard_WithLock_reentry() {
	g, store := exampleGuard()
	defer g.Close()

	err := g.WithLock(context.Background(), order, func(ctx context.Context) error {
		return g.WithLock(ctx, order, func(context.Context) error {
			fmt.Println("depth", store.Depth("order:42"))
			return nil
		})
	})
	fmt.Println("depth", store.Depth("order:42"), err)
	// Output:
	// depth 2
	// depth 0 <nil>
}

func ExampleDo() {
	g, _ := exampleGuard()
	defer g.Close()

	left, err := guard.Do(context.Background(), g, guard.Key("stock:7"), func(context.Context) (int, error) { return 12, nil })
	fmt.Println(left, err)
	// Output: 12 <nil>
}

// A hold that does not fit into a function, such as one that begins in one callback and
// ends in another.
func ExampleGuard_Acquire() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	lease, err := g.Acquire(ctx, order)
	if err != nil {
		panic(err)
	}
	work := lease.Context() // ends when the lease does
	fmt.Println("held:", lease.Err() == nil, work.Err() == nil)
	if err := lease.Release(ctx); err != nil {
		fmt.Println(err) // the lock was lost before, or Redis did not confirm
	}
	fmt.Println(context.Cause(work))
	// Output:
	// held: true true
	// guard: lock was released
}

// A program with one Guard may set it once and lock from anywhere. The Guard in the context comes before the default one:
// the middleware packages put theirs there.
func ExampleSetDefault() {
	g, _ := exampleGuard()
	defer g.Close()
	ctx := context.Background()

	fmt.Println(guard.WithLock(ctx, order, nothing))
	fmt.Println(guard.WithLock(guard.WithGuard(ctx, g), order, nothing))
	guard.SetDefault(g)
	defer guard.SetDefault(nil)
	fmt.Println(guard.WithLock(ctx, order, nothing))
	// Output:
	// guard: no Guard: give one that New made, or put it into the context (WithGuard), or call SetDefault
	// <nil>
	// <nil>
}

// A goroutine that outlives the work must not go on under its lock. With Detach it
// keeps the values of the context, and locks anew.
func ExampleDetach() {
	g, _ := exampleGuard()
	defer g.Close()

	var later context.Context // of the goroutine
	_ = g.WithLock(context.Background(), order, func(ctx context.Context) error {
		later = guard.Detach(ctx)
		_, held := guard.Held(later, order)
		fmt.Println("detached context holds the order:", held)
		return nil
	})
	fmt.Println(g.WithLock(later, order, nothing))
	// Output:
	// detached context holds the order: false
	// <nil>
}

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

// A million ids share 64 locks. Two ids may share one, so what needs both takes both at once.
func ExampleStripe() {
	account := func(id string) guard.KeyFunc { return guard.Stripe(64, guard.Keyf("account:%s", id)) }
	keys := []guard.KeyFunc{account("alice"), account("bob")}
	g, _ := exampleGuard()
	defer g.Close()
	fmt.Println(g.WithLocks(context.Background(), keys, func(ctx context.Context) error {
		alice, _ := guard.Held(ctx, account("alice"))
		fmt.Println(alice.Key())
		return nil
	}))
	// Output:
	// stripe:64:17
	// <nil>
}

// Code that must run under a lock can ask for it. Each key of WithLocks has a lease, and a fence for what it stands for.
func ExampleHeld() {
	g, _ := exampleGuard()
	defer g.Close()

	keys := []guard.KeyFunc{guard.Key("account:alice"), guard.Key("account:bob")}
	_ = g.WithLocks(context.Background(), keys, func(ctx context.Context) error {
		alice, _ := guard.Held(ctx, guard.Key("account:alice"))
		bob, _ := guard.Held(ctx, guard.Key("account:bob"))
		_, carol := guard.Held(ctx, guard.Key("account:carol"))
		fmt.Println(alice.Fence() > 0, bob.Fence() > 0, carol)
		return nil
	})
	// Output: true true false
}

// An HTTP API gets the fence in a header with each read and each write, and refuses smaller ones. In SQL, guardsql.Fence does this.
func ExampleFence() {
	g, _ := exampleGuard()
	defer g.Close()
	_ = g.WithLock(context.Background(), order, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://stock/7", nil)
		if err != nil {
			return err
		}
		fence, _ := guard.Fence(ctx)
		req.Header.Set("Fencing-Token", strconv.FormatUint(fence, 10))
		fmt.Println(req.Header.Get("Fencing-Token") > "0")
		return nil
	})
	// Output: true
}

// Before a step that cannot be undone, ask Redis instead of waiting for the next renewal.
func ExampleLease_Check() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	lease := held(g, order)

	fmt.Println(lease.Check(ctx))
	store.Drop("order:42") // an operator deleted the key
	fmt.Println(errors.Is(lease.Check(ctx), guard.ErrLost), lease.Context().Err())
	// Output:
	// <nil>
	// true context canceled
}

// What this process holds, for its own page of health.
func ExampleGuard_Holds() {
	g, _ := exampleGuard()
	defer g.Close()
	held(g, order, guard.Name("pay"))
	for _, l := range g.Holds() {
		fmt.Println(l.Name, l.Key, l.Depth, l.Waiting)
	}
	// Output: pay order:42 1 0
}

// A probe of readiness: without Redis, this process can lock nothing.
func ExampleGuard_Ping() {
	g, store := exampleGuard()
	defer g.Close()
	ready := func() bool { return g.Ping(context.Background()) == nil }

	fmt.Println(ready())
	store.Fail(&guardstore.RefusedError{Err: errors.New("READONLY")})
	fmt.Println(ready())
	// Output:
	// true
	// false
}

// Options of a Guard hold for all of its locks.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	g, err := guard.New(rdb,
		guard.Prefix("shop"),                    // the keys in Redis begin with it
		guard.StoreTimeout(time.Second),         // an outage is an error after that long
		guard.HandoverWindow(time.Millisecond),  // other processes get their turn sooner
		guard.Wait(5*time.Second),               // the default of each call
		guard.Replicas(1, 100*time.Millisecond), // a lock counts when a replica knows of it, too
	)
	fmt.Println(err, g.Close()) // nothing was sent: New does not ask Redis
	// Output: <nil> <nil>
}

// The Guard sends its commands by clients of its own.
func ExampleOnClient() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	g, _ := guard.New(rdb, guard.OnClient(func(client redis.UniversalClient) {
		fmt.Printf("%T\n", client) // or client.AddHook, or redisotel.InstrumentTracing(client)
	}))
	defer g.Close()
	// Output:
	// *redis.Client
	// *redis.Client
}

// One of many instances runs the loop. When it ends or dies, another one does.
func ExampleGuard_Lead() {
	g, _ := exampleGuard(guard.Name("outbox"))
	defer g.Close()
	ctx, cancel := context.WithCancel(context.Background()) // of the process, as signal.NotifyContext gives it

	err := g.Lead(ctx, guard.Key("outbox"), func(ctx context.Context) error {
		for ctx.Err() == nil {
			fmt.Println("order 1 was paid")
			cancel() // the process gets SIGTERM
		}
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// order 1 was paid
	// true
}

// A handler that locks in code: it passes ctx on, looks before the step that it cannot take back, and answers a loss
// as an open outcome.
func Example_lostLock() {
	g, _ := exampleGuard()
	defer g.Close()
	reserve := func(context.Context, string) error { return nil }

	_ = func(w http.ResponseWriter, r *http.Request) {
		order := r.URL.Query().Get("order")
		err := g.WithLock(r.Context(), guard.Keyf("order:%s", order), func(ctx context.Context) error {
			if err := reserve(ctx, order); err != nil { // give ctx to each call
				return err
			}
			if ctx.Err() != nil { // before a step that cannot be undone
				return context.Cause(ctx)
			}
			return charge(ctx, order)
		}, guard.Wait(2*time.Second))
		switch {
		case errors.Is(err, guard.ErrLost):
			http.Error(w, "the outcome is not known", http.StatusInternalServerError)
		case errors.Is(err, guard.ErrBusy):
			http.Error(w, "try again", http.StatusConflict)
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	}
}

// On SIGTERM, first what brings work ends, then the Guard, then its client.
func ExampleGuard_Shutdown() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	g, err := guard.New(rdb)
	if err != nil {
		panic(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second}

	stop, cancel := context.WithTimeout(context.Background(), 20*time.Second) // less than terminationGracePeriodSeconds
	defer cancel()
	_ = server.Shutdown(stop) // takes no new requests, and waits for those that run
	_ = g.Shutdown(stop)      // takes no new locks, and waits until all are released
	_ = rdb.Close()
	fmt.Println(g.WithLock(context.Background(), order, doesNotRun))
	// Output: guard: closed
}
