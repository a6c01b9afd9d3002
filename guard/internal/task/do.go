package task

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// doSlack is for how long after its deadline the result of fn is still waited for: it says
// more than that time was up.
const doSlack = 10 * time.Millisecond

// Do runs fn for a caller that leaves at the end of ctx: it returns what fn does, or the error
// of ctx if that ends first. Then fn goes on behind the caller, on a goroutine of g. The context
// of fn has the values and the deadline of ctx, not its end. If g is closed, the caller runs fn
// itself.
func Do[T any](ctx context.Context, g *Group, fn func(ctx context.Context) (T, error)) (T, error) {
	type outcome struct {
		got T
		err error
	}
	outcomes := make(chan outcome, 1)
	behind := clock.Behind(ctx)
	run := func() {
		defer behind.Cancel()
		got, err := fn(behind)
		outcomes <- outcome{got, err}
	}
	if !g.Go(run) {
		run()
	}
	var late <-chan time.Time
	if deadline, ends := ctx.Deadline(); ends {
		timer := time.NewTimer(time.Until(deadline) + doSlack)
		defer timer.Stop()
		late = timer.C
	}
	err := context.DeadlineExceeded
	select {
	case o := <-outcomes:
		return o.got, o.err
	case <-late:
	case <-clock.Caller(ctx).Done():
		err = ctx.Err()
	}
	select { // an answer that is there counts
	case o := <-outcomes:
		return o.got, o.err
	default:
		var none T
		return none, err
	}
}
