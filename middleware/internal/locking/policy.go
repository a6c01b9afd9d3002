package locking

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/guardhook"
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
func (p *Policy) Check() error { return guardhook.CheckOptions(p.Options) }

// defaultWait is the wait where neither the call nor the Guard set one.
func defaultWait(d time.Duration) guard.LockOption {
	return guardhook.DefaultWait(d).(guard.LockOption) //nolint:forcetypeassert // it returns nothing else
}

// Context gives ctx with the Guard in it, so that the work can lock more.
func (p *Policy) Context(ctx context.Context) context.Context {
	if p.Guard == nil {
		return ctx
	}
	return guard.WithGuard(ctx, p.Guard)
}

// Run is RunAll for one key.
func (p *Policy) Run(ctx context.Context, name string, key guard.KeyFunc, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	return p.RunAll(ctx, name, []guard.KeyFunc{key}, work, extra...)
}

// RunAll calls work under the locks of keys, with a name for telemetry that Options may
// override. extra is applied last. own is what work returned, identical. err is guard's:
// work did not run, or a lock was lost under it, whatever it returned; own is in err then,
// too.
func (p *Policy) RunAll(ctx context.Context, name string, keys []guard.KeyFunc, work func(context.Context) error, extra ...guard.LockOption) (own, err error) {
	opts := make([]guard.LockOption, 0, len(p.Options)+len(extra)+2)
	opts = append(opts, defaultWait(p.DefaultWait), guard.Name(name))
	opts = append(append(opts, p.Options...), extra...)
	// The work's own error stays here: a loss in it may be that of another lock, and none of ours.
	run := func(ctx context.Context) error {
		own = work(ctx)
		return nil
	}
	g := p.Guard
	if g == nil {
		g = guardhook.GuardFor(ctx).(*guard.Guard) //nolint:forcetypeassert // it returns nothing else
	}
	if len(keys) == 1 {
		err = g.WithLock(ctx, keys[0], run, opts...)
	} else {
		err = g.WithLocks(ctx, keys, run, opts...)
	}
	switch {
	case own == nil:
		return nil, err
	case errors.Is(err, guard.ErrLost):
		return own, errors.Join(err, own)
	}
	return own, nil
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
