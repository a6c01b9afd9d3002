package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// A task that is delivered again is acknowledged without a second charge. One that crashed in the middle is
// archived, for a person to look at.
func ExampleRule_Once() {
	g := newGuard()
	defer g.Close()

	tasks := asynq.NewServeMux()
	tasks.Use(guardasynq.Middleware(g, guardasynq.Lock("charge:{order_id}").Once(7*24*time.Hour, guard.AtMostOnce())))
	bankIsDown := true
	tasks.HandleFunc("order:charge", func(context.Context, *asynq.Task) error {
		if bankIsDown {
			return errors.New("the bank is down")
		}
		fmt.Println("charged")
		return nil
	})

	// An asynq.Server would do this.
	deliver := func(payload string) error {
		return tasks.ProcessTask(context.Background(), asynq.NewTask("order:charge", []byte(payload)))
	}
	fmt.Println(deliver(`{"order_id":42,"amount":10}`)) // what failed runs again
	bankIsDown = false
	fmt.Println(deliver(`{"order_id":42,"amount":10}`))
	fmt.Println(deliver(`{"order_id":42,"amount":10}`))
	err := deliver(`{"order_id":42,"amount":99}`)
	fmt.Println(errors.Is(err, guard.ErrOtherInput), errors.Is(err, asynq.SkipRetry))
	// Output:
	// the bank is down
	// charged
	// <nil>
	// <nil>
	// true true
}
