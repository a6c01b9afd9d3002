package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard"
)

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
