package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

// Readers beside readers, a writer alone, and three exports at a time for each tenant.
func ExampleLimit() {
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

// Readers work beside each other; a writer waits until they are out. A reader cannot become a
// writer: it would wait for itself.
func ExampleShared() {
	g, _ := exampleGuard()
	defer g.Close()
	rates := guard.Key("rates")

	reader := held(g, rates, guard.Shared())
	fmt.Println(g.WithLock(context.Background(), rates, nothing, guard.Shared()))
	fmt.Println(g.WithLock(context.Background(), rates, doesNotRun, guard.NoWait()))
	fmt.Println(errors.Is(g.WithLock(reader.Context(), rates, doesNotRun), guard.ErrOption))
	// Output:
	// <nil>
	// guard: lock is busy
	// true
}

// A caller that does not want to wait learns the holder, and when to come back.
func ExampleNoWait() {
	g, _ := exampleGuard()
	defer g.Close()
	held(g, order, guard.Metadata("worker 7"))

	err := g.WithLock(context.Background(), order, doesNotRun, guard.NoWait())
	var busy *guard.BusyError
	if errors.As(err, &busy) {
		fmt.Println(busy.Key, "is held by", busy.Holder)
		fmt.Println("come back in a while:", busy.RetryAfter >= time.Second)
	}
	// Output:
	// order:42 is held by worker 7
	// come back in a while: true
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
	err := g.WithLock(ctx, order, func(context.Context) error {
		return g.WithLock(context.Background(), order, doesNotRun, guard.NoWait())
	})
	var busy *guard.BusyError
	fmt.Println(errors.As(err, &busy), busy.Holder)
	// Output: true request 7
}

// The wait ends with Wait or with the context, whichever ends first. Both are a
// BusyError, which also matches the error of the context.
func ExampleWait() {
	g, _ := exampleGuard()
	defer g.Close()
	held(g, order)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for _, wait := range []time.Duration{time.Millisecond, time.Minute} {
		err := g.WithLock(ctx, order, doesNotRun, guard.Wait(wait))
		fmt.Println(errors.Is(err, guard.ErrBusy), errors.Is(err, context.DeadlineExceeded))
	}
	// Output:
	// true false
	// true true
}

// Renewal keeps a lock for as long as the work takes. MaxHold says how long that may be.
func ExampleMaxHold() {
	g, _ := exampleGuard()
	defer g.Close()

	err := g.WithLock(context.Background(), guard.Key("report"), untilDone, guard.MaxHold(20*time.Millisecond))
	fmt.Println(err)
	fmt.Println(errors.Is(err, guard.ErrMaxHold), errors.Is(err, guard.ErrLost))
	// Output:
	// guard: lock was lost: guard: MaxHold is used up
	// true true
}

// For work that is better done twice than not at all.
func ExampleFailOpen() {
	ctx := context.Background()
	g, store := exampleGuard()
	defer g.Close()
	store.Fail(&guardstore.RefusedError{Err: errors.New("OOM command not allowed")})

	warmCache := func(ctx context.Context) error {
		_, held := guard.Held(ctx, guard.Key("cache"))
		fmt.Println("runs, under a lock:", held)
		return nil
	}
	fmt.Println(g.WithLock(ctx, guard.Key("cache"), warmCache, guard.FailOpen()))
	// Output:
	// runs, under a lock: false
	// <nil>
}

// What comes from strings is escaped: no two pairs of a tenant and an order share a key.
func ExampleKeyf() {
	ctx := context.Background()
	for _, key := range []guard.KeyFunc{
		guard.Keyf("tenant:%s:order:%d", "acme:order:42", 7),
		guard.Key(guard.JoinKey("tenant", "acme:order:42", "order", "7")),
		guard.Keyf("tenant:%s:order:%d", "", 42),
		guard.Key("order:{id}"), // a text of your own, one lock for all orders
	} {
		fmt.Println(key(ctx))
	}
	// Output:
	// tenant:acme%3Aorder%3A42:order:7 <nil>
	// tenant:acme%3Aorder%3A42:order:7 <nil>
	//  guard: invalid lock key: an argument of Keyf("tenant:%s:order:%d") is empty
	// order:{id} <nil>
}

// A KeyFunc of your own takes the key from the context. Its error is a KeyError, and the work
// does not run.
func ExampleKeyFunc() {
	g, _ := exampleGuard()
	defer g.Close()

	type tenant struct{}
	perTenant := func(ctx context.Context) (string, error) {
		id, ok := ctx.Value(tenant{}).(string)
		if !ok {
			return "", errors.New("no tenant in the context")
		}
		return guard.JoinKey("tenant", id), nil
	}
	fmt.Println(g.WithLock(context.WithValue(context.Background(), tenant{}, "acme"), perTenant, nothing))
	fmt.Println(g.WithLock(context.Background(), perTenant, doesNotRun))
	// Output:
	// <nil>
	// guard: invalid lock key: key function failed: no tenant in the context
}

// inVain is an Observer of one thing; NopObserver takes the rest.
type inVain struct{ guard.NopObserver }

func (inVain) WaitEnd(_ context.Context, l guard.Lock, r guard.WaitResult) {
	if r.Outcome != guard.OutcomeAcquired {
		fmt.Printf("waited in vain: lock=%s outcome=%s\n", l.Name, r.Outcome)
	}
}

func ExampleObserve() {
	g, _ := exampleGuard(guard.Observe(inVain{}))
	defer g.Close()
	held(g, order)

	_ = g.WithLock(context.Background(), order, doesNotRun, guard.Wait(20*time.Millisecond), guard.Name("refund"))
	// Output: waited in vain: lock=refund outcome=timeout
}

func ExampleAsyncRelease() {
	g, _ := exampleGuard()
	defer func() { _ = g.Close() }() // sends the releases that are on their way

	fmt.Println(g.WithLock(context.Background(), guard.Key("view:7"), nothing, guard.AsyncRelease()))
	// Output: <nil>
}

// The second process has its tick a moment later, when the job of the first one is done.
func ExampleMinHold() {
	g, _ := exampleGuard()
	defer g.Close()
	report := func(context.Context) error { fmt.Println("report"); return nil }

	for range 2 {
		err := g.WithLock(context.Background(), guard.Key("report"), report, guard.NoWait(), guard.MinHold(50*time.Second))
		var busy *guard.BusyError
		if errors.As(err, &busy) && busy.HeldOver {
			fmt.Println("it ran already")
		}
	}
	// Output:
	// report
	// it ran already
}

// A lock is named by the format of its key. Name gives it another name.
func ExampleName() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	order := guard.Keyf("order:%d", 42)
	held(g, order)
	fmt.Println(g.WithLock(ctx, order, doesNotRun, guard.NoWait()))
	fmt.Println(g.WithLock(ctx, order, doesNotRun, guard.NoWait(), guard.Name("order-payment")))
	// Output:
	// guard: lock "order:*" is busy
	// guard: lock "order-payment" is busy
}

// The ttl is how long a crash blocks the key. Work may take longer: the lock is renewed.
func ExampleTTL() {
	g, _ := exampleGuard(guard.TTL(10 * time.Second)) // the default of this Guard
	defer g.Close()

	lease := held(g, guard.Key("import"), guard.TTL(time.Minute)) // and of this call
	fmt.Println("certain for more than 50 s:", time.Until(lease.Deadline()) > 50*time.Second)
	// Output: certain for more than 50 s: true
}
