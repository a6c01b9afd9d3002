package locking

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/guard"
)

// Policy is how one adapter locks. It does not change once it is in use.
type Policy struct {
	// Guard locks. Where it is nil, the Guard in the context does, else the default one.
	Guard *guard.Guard
	// DefaultWait bounds the wait where neither Options nor the Guard do.
	DefaultWait time.Duration
	// Options apply to every lock, before those of the single call.
	Options []guard.LockOption
}

// Check says what is wrong with the Options.
func (p *Policy) Check() error { return guard.CheckOptions(p.Options...) }

// CheckFurther says what is wrong with n keys that come beside the first one.
func CheckFurther(n int, missing func(i int) bool) error {
	for i := range n {
		if missing(i) {
			return fmt.Errorf("no KeyFunc at index %d of And", i)
		}
	}
	if n >= guard.MaxLocks {
		return fmt.Errorf("%d keys with those of And, the most is %d", n+1, guard.MaxLocks)
	}
	return nil
}

// Context gives ctx with the Guard in it, so that the work can lock more.
func (p *Policy) Context(ctx context.Context) context.Context {
	if p.Guard == nil {
		return ctx
	}
	return guard.WithGuard(ctx, p.Guard)
}

// Run calls work under the lock of key, with a name for telemetry that Options may
// override. extra is applied last. At most one of the errors is set: own is the work's,
// identical; err is guard's: the work did not run, or it reported success under a lock
// that was lost.
func (p *Policy) Run(ctx context.Context, name string, key guard.KeyFunc, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	return p.RunAll(ctx, name, []guard.KeyFunc{key}, work, extra...)
}

// RunAll is Run for several keys at once.
func (p *Policy) RunAll(ctx context.Context, name string, keys []guard.KeyFunc, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	opts := make([]guard.LockOption, 0, len(p.Options)+len(extra)+2)
	opts = append(opts, guard.DefaultWait(p.DefaultWait), guard.Name(name))
	opts = append(append(opts, p.Options...), extra...)
	run := func(ctx context.Context) error {
		own = work(ctx)
		return own
	}
	switch one := len(keys) == 1; {
	case one && p.Guard != nil:
		err = p.Guard.WithLock(ctx, keys[0], run, opts...)
	case one:
		err = guard.WithLock(ctx, keys[0], run, opts...)
	case p.Guard != nil:
		err = p.Guard.WithLocks(ctx, keys, run, opts...)
	default:
		err = guard.WithLocks(ctx, keys, run, opts...)
	}
	if own != nil {
		return own, nil
	}
	return nil, err
}

// RetryAfter says whether err kept the work from running for a reason that passes, and
// when another try is worth while: at least a second from now.
func RetryAfter(err error) (time.Duration, bool) {
	var busy *guard.BusyError
	switch {
	// A LostError may wrap ErrClosed or a StoreError, and a KeyError anything at all.
	case errors.Is(err, guard.ErrLost), errors.Is(err, guard.ErrKey):
		return 0, false
	case errors.As(err, &busy):
		return max(busy.RetryAfter, minRetryAfter), true
	case errors.Is(err, guard.ErrBusy), errors.Is(err, guard.ErrStore), errors.Is(err, guard.ErrClosed):
		return minRetryAfter, true
	}
	return 0, false
}

const minRetryAfter = time.Second
