package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
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

func ExampleAsyncRelease() {
	ctx := context.Background()
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	defer func() { _ = g.Close() }() // sends the releases that are on their way

	err = g.WithLock(ctx, guard.Key("view:7"), func(context.Context) error {
		fmt.Println("counted")
		return nil
	}, guard.AsyncRelease())
	fmt.Println(err)
	// Output:
	// counted
	// <nil>
}

// The second process has its tick a moment later, when the job of the first one is done.
func ExampleMinHold() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()
	report := func(context.Context) error {
		fmt.Println("report")
		return nil
	}

	for range 2 {
		err := g.WithLock(ctx, guard.Key("report"), report, guard.NoWait(), guard.MinHold(50*time.Second))
		var busy *guard.BusyError
		if errors.As(err, &busy) && busy.Done {
			fmt.Println("it ran already")
		}
	}
	// Output:
	// report
	// it ran already
}

// One caller at a time works on an order, in all processes with the same Redis.
func Example_short() {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	defer func() { _ = g.Close() }()
	ctx, order := context.Background(), "42"
	charge := func(context.Context, string) error { return nil }

	err = g.WithLock(ctx, guard.Keyf("order:%s", order), func(ctx context.Context) error {
		return charge(ctx, order) // ctx ends if the lock is lost
	}, guard.Wait(2*time.Second)) // without Wait: for as long as ctx lives
	fmt.Println(err)
	// Output: <nil>
}

// Key locks the text that you give it. It fills in no placeholders.
func ExampleKey() {
	ctx := context.Background()
	fmt.Println(guard.Key("nightly-report")(ctx))
	fmt.Println(guard.Key("order:{id}")(ctx)) // one lock for all orders: use Keyf
	fmt.Println(guard.Keyf("order:%d", 42)(ctx))
	// Output:
	// nightly-report <nil>
	// order:{id} <nil>
	// order:42 <nil>
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
	work := func(ctx context.Context) error {
		lease, _ := guard.FromContext(ctx)
		fmt.Println("runs under", lease.Key())
		return nil
	}
	fmt.Println(g.WithLock(context.WithValue(context.Background(), tenant{}, "acme"), perTenant, work))
	fmt.Println(g.WithLock(context.Background(), perTenant, work))
	// Output:
	// runs under tenant:acme
	// <nil>
	// guard: invalid lock key: key function failed: no tenant in the context
}

// A lock is named by the format of its key. Name gives it another name.
func ExampleName() {
	ctx := context.Background()
	g, _ := exampleGuard()
	defer g.Close()

	order := guard.Keyf("order:%d", 42)
	held, err := g.Acquire(ctx, order)
	if err != nil {
		panic(err)
	}
	_, err = g.Acquire(ctx, order, guard.NoWait())
	fmt.Println(err)
	_, err = g.Acquire(ctx, order, guard.NoWait(), guard.Name("order-payment"))
	fmt.Println(err)
	fmt.Println(held.Release(ctx))
	// Output:
	// guard: lock "order:*" is busy
	// guard: lock "order-payment" is busy
	// <nil>
}

// The ttl is how long a crash blocks the key. Work may take longer: the lock is renewed.
func ExampleTTL() {
	g, _ := exampleGuard(guard.TTL(10 * time.Second)) // the default of this Guard
	defer g.Close()

	err := g.WithLock(context.Background(), guard.Key("import"), func(ctx context.Context) error {
		lease, _ := guard.FromContext(ctx)
		fmt.Println("certain for more than 50 s:", time.Until(lease.Deadline()) > 50*time.Second)
		return nil
	}, guard.TTL(time.Minute)) // and of this call
	fmt.Println(err)
	_, err = g.Acquire(context.Background(), guard.Key("import"), guard.TTL(time.Millisecond))
	fmt.Println(err)
	// Output:
	// certain for more than 50 s: true
	// <nil>
	// guard: TTL 1ms is outside 100ms to 24h0m0s
}

// What a Guard is told once, for all of its locks.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	g, err := guard.New(rdb,
		guard.Prefix("shop"),                   // the keys in Redis begin with it
		guard.StoreTimeout(time.Second),        // an outage is an error after that long
		guard.HandoverWindow(time.Millisecond), // other processes get their turn sooner
		guard.Wait(5*time.Second),              // the default of each call
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Close()) // nothing was sent: New does not ask Redis
	// Output: <nil>
}

// A lock counts when a replica knows of it, too.
func ExampleReplicas() {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "mymaster",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
	})
	defer rdb.Close()

	g, err := guard.New(rdb, guard.Replicas(1, 100*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Close())
	// Output: <nil>
}

// A store in memory, or one of your own.
func ExampleNewWithStore() {
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store)
	if err != nil {
		panic(err)
	}
	fmt.Println(g.WithLock(context.Background(), guard.Key("order:42"), func(context.Context) error {
		fmt.Println("held:", store.Depth("order:42") > 0)
		return nil
	}))
	fmt.Println(g.Close())
	// Output:
	// held: true
	// <nil>
	// <nil>
}
