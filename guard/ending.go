package guard

import (
	"context"
	"time"
)

// ending is a context with a deadline that nobody can wait for: whoever heeds deadlines,
// as go-redis does with ContextTimeoutEnabled, needs no timer. It has the values of its
// parent, not its end.
type ending struct {
	context.Context //nolint:containedctx // it is one
	at              time.Time
}

func endingAt(parent context.Context, at time.Time) context.Context {
	return &ending{parent, at}
}

// Done implements context.Context.
func (*ending) Done() <-chan struct{} { return nil }

// Deadline implements context.Context.
func (e *ending) Deadline() (time.Time, bool) { return e.at, true }

// Err implements context.Context.
func (e *ending) Err() error {
	if time.Now().Before(e.at) {
		return nil
	}
	return context.DeadlineExceeded
}
