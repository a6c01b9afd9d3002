package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

// A caller that does not want to wait is told who is in its way, and when to come back.
func ExampleNoWait() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	lease, err := g.Acquire(ctx, guard.Key("order:42"), guard.Metadata("worker 7"))
	if err != nil {
		panic(err)
	}

	pay := func(context.Context) error { panic("does not run") }
	err = g.WithLock(ctx, guard.Key("order:42"), pay, guard.NoWait(), guard.Name("order-payment"))
	var busy *guard.BusyError
	if errors.As(err, &busy) {
		fmt.Println(busy)
		fmt.Println(busy.Key, "is held by", busy.Holder)
		fmt.Println("come back in a while:", busy.RetryAfter >= time.Second)
	}
	fmt.Println(lease.Release(ctx))
	// Output:
	// guard: lock "order-payment" is busy
	// order:42 is held by worker 7
	// come back in a while: true
	// <nil>
}

// Set for a Guard, it also applies to locks that others ask for, such as a middleware.
func ExampleMetadataFunc() {
	type requestID struct{}
	g, _ := exampleGuard(guard.MetadataFunc(func(ctx context.Context) string {
		id, _ := ctx.Value(requestID{}).(string)
		return id
	}))
	defer g.Close()

	ctx := context.WithValue(context.Background(), requestID{}, "request 7")
	err := g.WithLock(ctx, guard.Key("order:42"), func(context.Context) error {
		stranger, refund := context.Background(), func(context.Context) error { panic("does not run") }
		return g.WithLock(stranger, guard.Key("order:42"), refund, guard.NoWait())
	})
	var busy *guard.BusyError
	fmt.Println(errors.As(err, &busy), busy.Holder)
	// Output: true request 7
}

// The wait ends with Wait or with the context, whichever is over first. Both are a
// BusyError, which also matches the error of the context.
func ExampleWait() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	lease, err := g.Acquire(ctx, guard.Key("order:42"))
	if err != nil {
		panic(err)
	}
	pay := func(context.Context) error { panic("does not run") }

	err = g.WithLock(ctx, guard.Key("order:42"), pay, guard.Wait(20*time.Millisecond))
	fmt.Println(errors.Is(err, guard.ErrBusy), errors.Is(err, context.DeadlineExceeded))

	impatient, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	err = g.WithLock(impatient, guard.Key("order:42"), pay)
	fmt.Println(errors.Is(err, guard.ErrBusy), errors.Is(err, context.DeadlineExceeded))
	fmt.Println(lease.Release(ctx))
	// Output:
	// true false
	// true true
	// <nil>
}

// Renewal keeps a lock for as long as the work takes. MaxHold says how long that may be.
func ExampleMaxHold() {
	g, _ := exampleGuard()
	defer g.Close()

	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	err := g.WithLock(context.Background(), guard.Key("report"), hang, guard.MaxHold(20*time.Millisecond))
	fmt.Println(err)
	fmt.Println(errors.Is(err, guard.ErrMaxHold), errors.Is(err, guard.ErrLost))
	// Output:
	// guard: lock "default" was lost: guard: MaxHold, or the ttl of a FixedLease, is used up
	// true true
}

// Without renewal the ttl is all the time there is.
func ExampleFixedLease() {
	g, _ := exampleGuard()
	defer g.Close()

	begun := time.Now()
	err := g.WithLock(context.Background(), guard.Key("report"), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}, guard.FixedLease(), guard.TTL(150*time.Millisecond))
	fmt.Println(errors.Is(err, guard.ErrMaxHold), time.Since(begun) > 100*time.Millisecond)
	// Output: true true
}

// For work that is better done twice than not at all.
func ExampleFailOpen() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	store.Fail(&guardstore.RefusedError{Err: errors.New("OOM command not allowed")})

	warmCache := func(ctx context.Context) error {
		_, held := guard.Held(ctx, "cache")
		fmt.Println("runs, under a lock:", held)
		return nil
	}
	fmt.Println(g.WithLock(ctx, guard.Key("cache"), warmCache, guard.FailOpen()))
	fmt.Println(g.WithLock(ctx, guard.Key("cache"), warmCache))
	// Output:
	// runs, under a lock: false
	// <nil>
	// guard: lock store is unavailable: acquire of lock "default": OOM command not allowed
}

// What comes from strings is escaped: no two pairs of a tenant and an order share a key.
func ExampleKeyf() {
	ctx := context.Background()
	for _, key := range []guard.KeyFunc{
		guard.Keyf("tenant:%s:order:%d", "acme", 42),
		guard.Keyf("tenant:%s:order:%d", "acme:order:42", 7),
		guard.Keyf("tenant:%s:order:%d", "", 42),
	} {
		fmt.Println(key(ctx))
	}
	// Output:
	// tenant:acme:order:42 <nil>
	// tenant:acme%3Aorder%3A42:order:7 <nil>
	//  guard: invalid lock key: an argument of Keyf("tenant:%s:order:%d") is empty
}

func ExampleJoinKey() {
	fmt.Println(guard.JoinKey("file", "C:/100%"))
	// Output: file:C%3A/100%25
}

// inVain is an Observer of one thing; NopObserver takes the rest.
type inVain struct{ guard.NopObserver }

func (inVain) WaitEnd(_ context.Context, l guard.Lock, r guard.WaitResult) {
	if r.Outcome != guard.OutcomeAcquired {
		fmt.Printf("waited in vain: lock=%s outcome=%s\n", l.Name, r.Outcome)
	}
}

func ExampleObserve() {
	ctx := context.Background()
	g, _ := exampleGuard(guard.Observe(inVain{}))
	defer g.Close()
	work := func(context.Context) error { return nil }

	err := g.WithLock(ctx, guard.Key("order:42"), func(context.Context) error {
		// Not with the context of the work, which holds the key: as a stranger.
		return g.WithLock(ctx, guard.Key("order:42"), work, guard.Wait(20*time.Millisecond), guard.Name("refund"))
	})
	fmt.Println(errors.Is(err, guard.ErrBusy))
	// Output:
	// waited in vain: lock=refund outcome=timeout
	// true
}
