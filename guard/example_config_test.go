package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

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
