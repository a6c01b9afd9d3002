package clock

import (
	"context"
	"time"
)

type deadlineCtx struct {
	context.Context //nolint:containedctx // it is one
	at              time.Time
}

// WithDeadline gives a context with the values of parent and a deadline of its own. It does
// not end with parent, and nobody can wait for its end: it has no timer. It is for callees
// that look at deadlines, as go-redis does with ContextTimeoutEnabled.
func WithDeadline(parent context.Context, at time.Time) context.Context {
	return &deadlineCtx{parent, at}
}

// Done implements context.Context.
func (*deadlineCtx) Done() <-chan struct{} { return nil }

// Deadline implements context.Context.
func (e *deadlineCtx) Deadline() (time.Time, bool) { return e.at, true }

// Err implements context.Context.
func (e *deadlineCtx) Err() error {
	if time.Now().Before(e.at) {
		return nil
	}
	return context.DeadlineExceeded
}
