package guardriver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

// newGuard stands for guard.New(redisClient).
func newGuard() *guard.Guard {
	g, err := guard.NewWithStore(guardtest.NewStore())
	if err != nil {
		panic(err)
	}
	return g
}

func ExampleMiddleware() {
	g := newGuard()
	defer g.Close()

	charge := guardriver.Middleware(g, guardriver.Lock("order:{order_id}"))

	// A river.Client does this, if Config.Middleware has it.
	job := &rivertype.JobRow{Kind: "charge_order", EncodedArgs: []byte(`{"order_id":42}`)}
	err := charge.Work(context.Background(), job, func(ctx context.Context) error {
		lease, _ := guard.FromContext(ctx)
		fmt.Println("charging under", lease.Key())
		return nil
	})
	fmt.Println(err)
	// Output:
	// charging under order:42
	// <nil>
}

// Three jobs of a kind at a time for each tenant. The others are snoozed, and use up no attempt.
func ExampleAnnotate() {
	g := newGuard()
	defer g.Close()

	config := &river.Config{
		Middleware: []rivertype.Middleware{guardriver.Annotate(g, guardriver.Jobs{
			"charge_order": guardriver.Lock("order:{order_id}"),
			"export":       guardriver.Lock("export:{tenant}", guard.Limit(3)),
		})},
	}
	_ = config // of river.NewClient
}

// The holder of the lock builds the report: there is no need to build it twice.
func ExampleRule_OnBusy() {
	g := newGuard()
	defer g.Close()
	ctx := context.Background()
	job := &rivertype.JobRow{Kind: "build_report", EncodedArgs: []byte(`{"day":"monday"}`)}
	lease, err := g.Acquire(ctx, guard.Key("report:monday"))
	if err != nil {
		panic(err)
	}
	defer lease.Release(ctx)

	rule := guardriver.Lock("report:{day}", guard.NoWait())
	work := func(context.Context) error { panic("not reached") }
	err = guardriver.Middleware(g, rule).Work(ctx, job, work)
	fmt.Println("snoozed:", errors.Is(err, &river.JobSnoozeError{}))
	err = guardriver.Middleware(g, rule.OnBusy(guardriver.Drop)).Work(ctx, job, work)
	fmt.Println("completed:", err == nil)
	// Output:
	// snoozed: true
	// completed: true
}

// A row that no job has would lock nothing, so a program checks before it starts its client.
func ExampleCheck() {
	args := []river.JobArgs{orderArgs{}}
	fmt.Println(guardriver.Check(args, guardriver.Jobs{"charge_orders": guardriver.Lock("order:{order_id}")}))
	// Output: guardriver: row "charge_orders": no job of the given arguments is of this kind
}

// A job that was added twice charges once. A job with other arguments and the same key is cancelled.
func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	charge := guardriver.Middleware(g, guardriver.Lock("charge:{order_id}").Once(7*24*time.Hour, guard.AtMostOnce()))

	// A river.Client would do this.
	work := func(args string) error {
		job := &rivertype.JobRow{Kind: "charge_order", EncodedArgs: []byte(args)}
		return charge.Work(context.Background(), job, func(context.Context) error {
			fmt.Println("charged")
			return nil
		})
	}
	fmt.Println(work(`{"order_id":42,"amount":10}`))
	fmt.Println(work(`{"order_id":42,"amount":10}`))
	err := work(`{"order_id":42,"amount":99}`)
	fmt.Println(errors.Is(err, guard.ErrOtherInput), errors.Is(err, &river.JobCancelError{}))
	// Output:
	// charged
	// <nil>
	// <nil>
	// true true
}

// The test in docs/guides/river.md.
func TestGuide_ABusyJob(t *testing.T) {
	work := func(context.Context) error { return nil }
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another job has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		charge := guardriver.Middleware(g, guardriver.Lock("order:{order_id}"))
		err = charge.Work(t.Context(), &rivertype.JobRow{Kind: "charge_order", EncodedArgs: []byte(`{"order_id":42}`)}, work)
		if !errors.Is(err, &river.JobSnoozeError{}) {
			t.Errorf("got %v, want a snooze", err)
		}
	})
}
