package task

import (
	"context"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Do runs fn, which returns at its deadline, for a caller that leaves when ctx ends. It returns the
// result of fn, or the error of ctx if the caller leaves first: then fn keeps running, on a
// goroutine of g. The context of fn has the values and the deadline of ctx, and does not end with it.
// If ctx ends by its deadline only, or g is closed, the caller runs fn itself.
func Do[T any](ctx context.Context, g *Group, fn func(ctx context.Context) (T, error)) (T, error) {
	detached := clock.Detach(ctx)
	left := clock.Caller(ctx).Done()
	if left == nil {
		defer detached.Cancel()
		return fn(detached) //nolint:contextcheck // it is ctx, without an end
	}
	type outcome struct {
		got T
		err error
	}
	result := make(chan outcome, 1)
	run := func() { //nolint:contextcheck // it is ctx, without an end
		defer detached.Cancel()
		got, err := fn(detached)
		result <- outcome{got, err}
	}
	if !g.Go(run) {
		run()
	}
	select {
	case o := <-result:
		return o.got, o.err
	case <-left:
	}
	select { // an answer that is there counts
	case o := <-result:
		return o.got, o.err
	default:
		var none T
		return none, ctx.Err()
	}
}
