package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/guard"
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

// Lose takes the lock away, as a DEL by hand does. Your work has to stop then. In a bubble, the test takes no time.
func ExampleLose() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := guardtest.NewMemoryGuard(t) // with the t of the bubble
			err := g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
				guardtest.Lose(t, g, guard.Key("order:42"))
				<-ctx.Done() // the next renewal detects it
				return nil
			})
			if !errors.Is(err, guard.ErrLost) {
				t.Errorf("got %v, want a lost lock", err)
			}
		})
	}
	// Output:
}

// A test of code that nests locks fails if it does so in two orders, also when no caller had to wait
// in this run.
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

// In an outage your code gets a StoreError, and the work does not run.
func ExampleOutage() {
	_ = func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t, guard.StoreTimeout(20*time.Millisecond))
		guardtest.Outage(t, g, errors.New("connection refused"))
		err := g.WithLock(t.Context(), guard.Key("order:42"), func(context.Context) error {
			t.Error("the work ran")
			return nil
		})
		if !errors.Is(err, guard.ErrStore) {
			t.Errorf("got %v, want a StoreError", err)
		}
	}
	// Output:
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
