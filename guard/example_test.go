package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

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

// An embedded Redis stands for yours: rdb is any go-redis client.
func Example() {
	ctx := context.Background()
	server, err := guardtest.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := server.Client()

	g, err := guard.New(rdb)
	if err != nil {
		panic(err)
	}
	defer g.Close()

	err = g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
		// Nobody else works on order 42. If the lock gets lost, ctx ends.
		return charge(ctx, "42")
	})
	fmt.Println(err)
	// Output:
	// charged order 42
	// <nil>
}

func charge(ctx context.Context, order string) error {
	fmt.Println("charged order", order)
	return ctx.Err()
}

func ExampleGuard_WithLock() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	pay := func(context.Context) error { return errors.New("card was declined") }
	err := g.WithLock(ctx, guard.Key("order:42"), pay)
	fmt.Println(err) // the work's own error, unchanged
	// Output: card was declined
}

// Locking a key that the context holds joins the hold: it neither waits nor deadlocks,
// and the outermost call is the one that releases.
func ExampleGuard_WithLock_reentry() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	order := guard.Key("order:42")

	refund := func(ctx context.Context) error {
		return g.WithLock(ctx, order, func(context.Context) error {
			fmt.Println("refund, depth", store.Depth("order:42"))
			return nil
		})
	}
	err := g.WithLock(ctx, order, func(ctx context.Context) error {
		fmt.Println("cancel, depth", store.Depth("order:42"))
		defer func() { fmt.Println("cancel, depth", store.Depth("order:42")) }()
		return refund(ctx)
	})
	fmt.Println("after, depth", store.Depth("order:42"), err)
	// Output:
	// cancel, depth 1
	// refund, depth 2
	// cancel, depth 1
	// after, depth 0 <nil>
}

// When the lock is lost the context of the work ends, with the reason as its cause. Work
// that heeds it stops; WithLock reports the loss whatever the work returns.
func ExampleGuard_WithLock_lost() {
	g, store := exampleGuard(guard.TTL(guard.MinTTL))
	defer g.Close()

	err := g.WithLock(context.Background(), guard.Key("order:42"), func(ctx context.Context) error {
		store.Drop("order:42") // as when Redis lost its data
		<-ctx.Done()
		fmt.Println("stop:", errors.Is(context.Cause(ctx), guard.ErrLost))
		return nil
	})
	var lost *guard.LostError
	fmt.Println(errors.As(err, &lost), lost.Key)
	// Output:
	// stop: true
	// true order:42
}

func ExampleDo() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	left, err := guard.Do(ctx, g, guard.Key("stock:7"), func(context.Context) (int, error) {
		return 12, nil
	})
	fmt.Println(left, err)
	// Output: 12 <nil>
}

// A hold that does not fit into a function, such as one that begins in one callback and
// ends in another.
func ExampleGuard_Acquire() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	lease, err := g.Acquire(ctx, guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	work := lease.Context() // ends when the lease does
	fmt.Println("held:", lease.Err() == nil, work.Err() == nil)

	if err := lease.Release(ctx); err != nil {
		fmt.Println(err) // the lock was lost before, or Redis did not confirm
	}
	fmt.Println("held:", lease.Err() == nil, work.Err() == nil)
	fmt.Println(context.Cause(work))
	// Output:
	// held: true true
	// held: false false
	// guard: lock "default" was released
}

// Shutdown refuses new work and waits for what runs. Work under a lease may go on to
// take the locks that it needs to finish.
func ExampleGuard_Shutdown() {
	ctx := context.Background()
	g, _ := exampleGuard()
	lease, err := g.Acquire(ctx, guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	work := lease.Context()
	nothing := func(context.Context) error { return nil }

	down := make(chan error)
	go func() { down <- g.Shutdown(ctx) }()
	err = g.WithLock(ctx, guard.Key("order:43"), nothing)
	for err == nil { // Shutdown has not begun yet
		err = g.WithLock(ctx, guard.Key("order:43"), nothing)
	}
	fmt.Println("new work:", errors.Is(err, guard.ErrClosed))
	fmt.Println("under the lease:", g.WithLock(work, guard.Key("stock:7"), nothing))
	fmt.Println("release:", lease.Release(ctx))
	fmt.Println("shutdown:", <-down)
	// Output:
	// new work: true
	// under the lease: <nil>
	// release: <nil>
	// shutdown: <nil>
}

// A program with one Guard may set it once and lock from anywhere.
func ExampleSetDefault() {
	g, _ := exampleGuard()
	defer g.Close()
	guard.SetDefault(g)
	defer guard.SetDefault(nil)

	err := guard.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error {
		fmt.Println("locked")
		return nil
	})
	fmt.Println(err)
	// Output:
	// locked
	// <nil>
}

// The Guard in the context comes before the default one. The middleware packages put
// theirs there.
func ExampleWithGuard() {
	g, _ := exampleGuard()
	defer g.Close()
	work := func(context.Context) error { return nil }

	ctx := context.Background()
	fmt.Println(guard.WithLock(ctx, guard.Key("order:42"), work))
	ctx = guard.WithGuard(ctx, g)
	fmt.Println(guard.WithLock(ctx, guard.Key("order:42"), work))
	// Output:
	// guard: no Guard: give one that New made, or put it into the context (WithGuard), or call SetDefault
	// <nil>
}

// Goroutines that get the context of a holder share its key: they do not exclude each
// other on it. Here each goes on only when both are inside.
func ExampleGuard_WithLock_children() {
	g, _ := exampleGuard()
	defer g.Close()
	order := guard.Key("order:42")

	err := g.WithLock(context.Background(), order, func(ctx context.Context) error {
		var inside, done sync.WaitGroup
		inside.Add(2)
		for range 2 {
			done.Go(func() {
				_ = g.WithLock(ctx, order, func(context.Context) error {
					inside.Done()
					inside.Wait()
					return nil
				})
			})
		}
		done.Wait()
		fmt.Println("both were inside")
		return nil
	})
	fmt.Println(err)
	// Output:
	// both were inside
	// <nil>
}

// Goroutines whose common context does not hold the key exclude each other, as those of
// different processes do.
func ExampleGuard_WithLock_siblings() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	var inside, most atomic.Int32
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			_ = g.WithLock(ctx, guard.Key("order:42"), func(context.Context) error {
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				return nil
			})
		})
	}
	done.Wait()
	fmt.Println("at most inside:", most.Load())
	// Output: at most inside: 1
}

// A goroutine that outlives the work must not go on under its lock. With Detach it
// keeps the values of the context, and locks anew.
func ExampleDetach() {
	g, _ := exampleGuard()
	defer g.Close()
	order := guard.Key("order:42")

	var mail sync.WaitGroup
	err := g.WithLock(context.Background(), order, func(ctx context.Context) error {
		later := guard.Detach(ctx)
		mail.Go(func() {
			_ = g.WithLock(later, order, func(context.Context) error {
				fmt.Println("mail sent, under a lock of its own")
				return nil
			})
		})
		_, held := guard.Held(later, "order:42")
		fmt.Println("paid; detached context holds the order:", held)
		return nil
	})
	mail.Wait()
	fmt.Println(err)
	// Output:
	// paid; detached context holds the order: false
	// mail sent, under a lock of its own
	// <nil>
}

// Code that must run under a lock can ask for it.
func ExampleHeld() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	setStatus := func(ctx context.Context, status string) error {
		if _, ok := guard.Held(ctx, "order:42"); !ok {
			return errors.New("set status: order 42 is not locked")
		}
		fmt.Println("status:", status)
		return nil
	}
	fmt.Println(setStatus(ctx, "paid"))
	fmt.Println(g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
		return setStatus(ctx, "paid")
	}))
	// Output:
	// set status: order 42 is not locked
	// status: paid
	// <nil>
}

// row is what a database keeps: with each order the highest fence that wrote to it.
type row struct {
	status string
	fence  uint64
}

// write is UPDATE orders SET status = $1, fence = $2 WHERE id = 42 AND fence <= $2.
func (r *row) write(status string, fence uint64) error {
	if fence < r.fence {
		return errors.New("stale fence")
	}
	r.status, r.fence = status, fence
	return nil
}

// The lock passes on under work that does not notice in time. The resource that keeps
// the highest fence refuses its late write.
func ExampleFence() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	var order row

	err := g.WithLock(ctx, guard.Key("order:42"), func(late context.Context) error {
		store.Drop("order:42") // as when Redis failed over and forgot the lock
		err := g.WithLock(ctx, guard.Key("order:42"), func(ctx context.Context) error {
			fence, _ := guard.Fence(ctx)
			return order.write("paid", fence)
		})
		fmt.Println("next holder:", err)

		fence, _ := guard.Fence(late)
		fmt.Println("late holder:", order.write("cancelled", fence))
		return nil
	}, guard.TTL(300*time.Millisecond))
	fmt.Println(order.status, errors.Is(err, guard.ErrLost))
	// Output:
	// next holder: <nil>
	// late holder: stale fence
	// paid true
}

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
