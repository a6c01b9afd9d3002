package clock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Deadline is a context that ends with its parent, or at its deadline. The first call of Done makes
// its timer, so there is none for callees that only read the deadline, as go-redis does. Its
// Deadline is its own, even where that of its parent is nearer.
type Deadline struct {
	context.Context //nolint:containedctx // the parent
	at              time.Time

	mu       sync.Mutex
	canceled bool
	timed    atomic.Pointer[timed] // nil = no goroutine waits
}

type timed struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelFunc
}

// WithDeadline makes a Deadline. Cancel it when the call is done.
func WithDeadline(parent context.Context, at time.Time) *Deadline {
	return &Deadline{Context: parent, at: at}
}

// Cancel ends the context, and wakes the goroutines that wait for its end.
func (d *Deadline) Cancel() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.canceled = true
	if t := d.timed.Load(); t != nil {
		t.cancel()
	}
}

// Done implements context.Context.
func (d *Deadline) Done() <-chan struct{} {
	if t := d.timed.Load(); t != nil {
		return t.Done()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.timed.Load()
	if t == nil {
		ctx, cancel := context.WithDeadline(d.Context, d.at)
		if t = (&timed{ctx, cancel}); d.canceled {
			cancel()
		}
		d.timed.Store(t)
	}
	return t.Done()
}

// Deadline implements context.Context.
func (d *Deadline) Deadline() (time.Time, bool) { return d.at, true }

// Err implements context.Context.
func (d *Deadline) Err() error {
	if t := d.timed.Load(); t != nil {
		return t.Err()
	}
	if err := d.Context.Err(); err != nil || time.Now().Before(d.at) {
		return err
	}
	return context.DeadlineExceeded
}

// Value implements context.Context.
func (d *Deadline) Value(key any) any {
	if key == (deadlineKey{}) {
		return d
	}
	if t := d.timed.Load(); t != nil {
		return t.Value(key)
	}
	return d.Context.Value(key)
}

// Caller gives the context whose end says that a caller leaves: the parent of a Deadline, for
// callees that heed the deadline by themselves; else ctx. A Deadline may have values added to it.
func Caller(ctx context.Context) context.Context {
	if d, ok := ctx.(*Deadline); ok {
		return d.Context
	}
	d, _ := ctx.Value(deadlineKey{}).(*Deadline)
	if done := ctx.Done(); d != nil && done != nil && done == d.Done() { // else it ends by itself, or not at all
		return d.Context
	}
	return ctx
}

// deadlineKey is the key under which a Deadline is found below contexts that add values to it.
type deadlineKey struct{}

// Detach makes the context of a call that keeps running after its caller left: it has the values
// and the deadline of ctx, and does not end with it.
func Detach(ctx context.Context) *Deadline {
	at, ends := ctx.Deadline()
	if !ends {
		at = time.Now().Add(Forever)
	}
	return WithDeadline(context.WithoutCancel(Caller(ctx)), at)
}
