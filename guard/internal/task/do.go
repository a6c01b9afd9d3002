package task

import (
	"context"
	"errors"
)

// Do runs fn, which returns at its deadline, for a caller that leaves when ctx is canceled. It returns the
// result of fn, or the error of ctx if the caller leaves first: then fn keeps running, on a
// goroutine of g. The context of fn has the values and the deadline of ctx, and does not end with it.
// If g is closed, the caller runs fn itself.
func Do[T any](ctx context.Context, g *Group, fn func(ctx context.Context) (T, error)) (T, error) {
	detached, end := context.WithoutCancel(ctx), func() {}
	if at, ends := ctx.Deadline(); ends {
		detached, end = context.WithDeadline(detached, at)
	}
	type outcome struct {
		got T
		err error
	}
	result := make(chan outcome, 1)
	run := func() {
		defer end()
		got, err := fn(detached)
		result <- outcome{got, err}
	}
	if !g.Go(run) {
		run()
	}
	select {
	case o := <-result:
		return o.got, o.err
	case <-ctx.Done():
	}
	if len(result) > 0 || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		o := <-result
		return o.got, o.err
	}
	var none T
	return none, ctx.Err()
}
