package guardriver_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/redlatch/redlatch/guard"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

// A job that was added twice charges once. One of other arguments with the same key is cancelled.
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
