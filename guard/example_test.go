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

// Shutdown refuses new work and waits for what runs. Work under a lease may go on to
// take the locks that it needs to finish.
func ExampleGuard_Shutdown() {
	ctx := context.Background()
	g, _ := exampleGuard()
	lease := held(g, order)
	down := make(chan error)
	go func() { down <- g.Shutdown(ctx) }()
	var err error
	for err == nil { // Shutdown has not begun yet
		err = g.WithLock(ctx, guard.Key("order:43"), nothing)
	}
	fmt.Println("new work:", errors.Is(err, guard.ErrClosed))
	fmt.Println("under the lease:", g.WithLock(lease.Context(), guard.Key("stock:7"), nothing))
	fmt.Println(lease.Release(ctx), <-down)
	// Output:
	// new work: true
	// under the lease: <nil>
	// <nil> <nil>
}

// A program with one Guard may set it once and lock from anywhere.
func ExampleSetDefault() {
	g, _ := exampleGuard()
	defer g.Close()
	guard.SetDefault(g)
	defer guard.SetDefault(nil)

	fmt.Println(guard.WithLock(context.Background(), order, nothing))
	// Output: <nil>
}

// The Guard in the context comes before the default one. The middleware packages put
// theirs there.
func ExampleWithGuard() {
	g, _ := exampleGuard()
	defer g.Close()

	ctx := context.Background()
	fmt.Println(guard.WithLock(ctx, order, nothing))
	ctx = guard.WithGuard(ctx, g)
	fmt.Println(guard.WithLock(ctx, order, nothing))
	// Output:
	// guard: no Guard: give one that New made, or put it into the context (WithGuard), or call SetDefault
	// <nil>
}

// A goroutine that outlives the work must not go on under its lock. With Detach it
// keeps the values of the context, and locks anew.
func ExampleDetach() {
	g, _ := exampleGuard()
	defer g.Close()

	var mail sync.WaitGroup
	err := g.WithLock(context.Background(), order, func(ctx context.Context) error {
		later := guard.Detach(ctx)
		mail.Go(func() { _ = g.WithLock(later, order, nothing) })
		_, held := guard.Held(later, guard.Key("order:42"))
		fmt.Println("detached context holds the order:", held)
		return nil
	})
	mail.Wait()
	fmt.Println(err)
	// Output:
	// detached context holds the order: false
	// <nil>
}

// Code that must run under a lock can ask for it.
func ExampleHeld() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	pay := func(ctx context.Context) error {
		if _, ok := guard.Held(ctx, guard.Key("order:42")); !ok {
			return errors.New("order 42 is not locked")
		}
		return charge(ctx, "42")
	}
	fmt.Println(pay(ctx))
	fmt.Println(g.WithLock(ctx, order, pay))
	// Output:
	// order 42 is not locked
	// charged order 42
	// <nil>
}

// row is an order in a store, with the highest fence that came with a read or a write.
type row struct {
	status string
	fence  uint64
}

// claim is UPDATE orders SET fence = $1 WHERE id = 42 AND fence <= $1 RETURNING status.
func (r *row) claim(fence uint64) (status string, err error) {
	if fence < r.fence {
		return "", errors.New("stale fence")
	}
	r.fence = fence
	return r.status, nil
}

// write is UPDATE orders SET status = $2, fence = $1 WHERE id = 42 AND fence <= $1.
func (r *row) write(status string, fence uint64) error {
	if _, err := r.claim(fence); err != nil {
		return err
	}
	r.status = status
	return nil
}

// The lock passes on under work that does not notice in time. The next holder claims the row with its
// fence when it reads the row, so the late write is refused, also if the next holder has not written
// yet. In SQL, guardsql.Fence does this.
func ExampleFence() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	var row row

	_ = g.WithLock(ctx, order, func(late context.Context) error {
		former, _ := guard.Fence(late)
		_, _ = row.claim(former)
		store.Drop("order:42") // as when Redis failed over and forgot the lock
		return g.WithLock(ctx, order, func(ctx context.Context) error {
			fence, _ := guard.Fence(ctx)
			_, _ = row.claim(fence)
			fmt.Println("late holder:", row.write("cancelled", former))
			fmt.Println("next holder:", row.write("paid", fence))
			return nil
		})
	}, guard.TTL(300*time.Millisecond))
	fmt.Println(row.status)
	// Output:
	// late holder: stale fence
	// next holder: <nil>
	// paid
}

// An HTTP API gets the fence in a header with each read and each write, and refuses smaller ones.
func ExampleFence_header() {
	get := func(ctx context.Context, url string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		fence, _ := guard.Fence(ctx)
		req.Header.Set("Fencing-Token", strconv.FormatUint(fence, 10))
		return http.DefaultClient.Do(req)
	}
	_ = get
}

// Before a step that cannot be undone, ask Redis instead of waiting for the next renewal.
func ExampleLease_Check() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	lease := held(g, order)

	fmt.Println(lease.Check(ctx))
	store.Drop("order:42") // somebody deleted the key
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
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Close()) // nothing was sent: New does not ask Redis
	// Output: <nil>
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
