package task

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Do runs fn, which returns at its deadline, for a caller that leaves when ctx ends. It returns the
// result of fn, or the error of ctx if the caller leaves first: then fn goes on asynchronously, on a
// goroutine of g. The context of fn has the values and the deadline of ctx, and does not end with it.
// If ctx ends by its deadline only, or g is closed, the caller runs fn itself.
func Do[T any](ctx context.Context, g *Group, fn func(ctx context.Context) (T, error)) (T, error) {
	if clock.Caller(ctx).Done() == nil {
		detached := clock.Detach(ctx)
		defer detached.Cancel()
		return fn(detached) //nolint:contextcheck // it is ctx, without an end
	}
	return begin(ctx, g, fn).await(ctx, nil)
}

// lateBy is how long Do waits for the result of fn after the deadline: it says more than
// "deadline exceeded".
const lateBy = 10 * time.Millisecond

// DoInTime is Do for an fn that may not return at its deadline.
func DoInTime[T any](ctx context.Context, g *Group, fn func(ctx context.Context) (T, error)) (T, error) {
	deadline, ends := ctx.Deadline()
	if !ends {
		return begin(ctx, g, fn).await(ctx, nil)
	}
	timer := time.NewTimer(time.Until(deadline) + lateBy)
	defer timer.Stop()
	return begin(ctx, g, fn).await(ctx, timer.C)
}

type outcome[T any] struct {
	got T
	err error
}

type outcomes[T any] chan outcome[T]

func begin[T any](ctx context.Context, g *Group, fn func(ctx context.Context) (T, error)) outcomes[T] {
	result := make(outcomes[T], 1)
	detached := clock.Detach(ctx)
	run := func() { //nolint:contextcheck // it is ctx, without an end
		defer detached.Cancel()
		got, err := fn(detached)
		result <- outcome[T]{got, err}
	}
	if !g.Go(run) {
		run()
	}
	return result
}

func (result outcomes[T]) await(ctx context.Context, late <-chan time.Time) (T, error) {
	err := context.DeadlineExceeded
	select {
	case o := <-result:
		return o.got, o.err
	case <-late:
	case <-clock.Caller(ctx).Done():
		err = ctx.Err()
	}
	select { // an answer that is there counts
	case o := <-result:
		return o.got, o.err
	default:
		var none T
		return none, err
	}
}
