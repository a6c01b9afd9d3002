package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// In a bubble of testing/synctest an hour of work under a lock takes no time.
func ExampleNewMemoryGuard() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := guardtest.NewMemoryGuard(t) // made, used and closed in the bubble
			err := g.WithLock(t.Context(), guard.Key("report"), func(ctx context.Context) error {
				time.Sleep(time.Hour) // the lock is renewed
				return ctx.Err()
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	// Output:
}

// A program that runs where there is no Redis, such as a demonstration.
func ExampleStart() {
	server, err := guardtest.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	g, err := guard.New(server.Client())
	if err != nil {
		panic(err)
	}
	defer g.Close()
	fmt.Println(g.Ping(context.Background()))
	// Output: <nil>
}

// Drop takes the lock away, as a DEL by hand does. Your work has to stop then. In a bubble, the test takes no time.
func ExampleStoreOf() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := guardtest.NewMemoryGuard(t) // with the t of the bubble
			err := g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
				guardtest.StoreOf(g).Drop("order:42")
				<-ctx.Done() // the next renewal finds it out
				return nil
			})
			if !errors.Is(err, guard.ErrLost) {
				t.Errorf("got %v, want a lost lock", err)
			}
		})
	}
	// Output:
}

// A test of code that nests locks fails if it does so in two orders, also when nobody waited
// for anybody in this run.
func ExampleOrder() {
	_ = func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t, guard.Observe(guardtest.Order(t)))
		err := g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
			return g.WithLock(ctx, guard.Key("account:7"), func(context.Context) error {
				return nil
			}, guard.Name("account"))
		}, guard.Name("order"))
		if err != nil {
			t.Fatal(err)
		}
	}
	// Output:
}

// Fail makes an outage: your code sees a StoreError, and the work does not run.
func ExampleStore_Fail() {
	ctx := context.Background()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.StoreTimeout(20*time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer g.Close()

	work := func(context.Context) error { fmt.Println("runs"); return nil }
	store.Fail(errors.New("connection refused"))
	err = g.WithLock(ctx, guard.Key("order:42"), work)
	fmt.Println(errors.Is(err, guard.ErrStore))
	store.Fail(nil)
	fmt.Println(g.WithLock(ctx, guard.Key("order:42"), work))
	// Output:
	// true
	// runs
	// <nil>
}

// A Recorder shows what happened to locks, in order.
func ExampleRecorder() {
	seen := &guardtest.Recorder{}
	g, err := guard.NewWithStore(guardtest.NewStore(), guard.Observe(seen))
	if err != nil {
		panic(err)
	}
	defer g.Close()

	_ = g.WithLock(context.Background(), guard.Keyf("order:%d", 42), func(context.Context) error { return nil })
	for _, o := range seen.Observations("WaitEnd", "HoldEnd") {
		fmt.Println(o.Method, o.Lock.Name, o.Lock.Key, o.Wait.Outcome+o.Hold.Outcome)
	}
	// Output:
	// WaitEnd order:* order:42 acquired
	// HoldEnd order:* order:42 released
}

// The contract of a store of your own, as subtests.
func ExampleTestStore() {
	_ = func(t *testing.T) {
		newStore := func(testing.TB) guardstore.Store { return guardtest.NewStore() } // yours
		guardtest.TestStore(t, newStore)
		guardtest.TestQueue(t, newStore)
		guardtest.TestLimits(t, newStore)
	}
	// Output:
}
