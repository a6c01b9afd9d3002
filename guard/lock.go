package guard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// How long WithLock waits for its release: long enough for a Redis that works. If Redis does
// not answer, WithLock returns, and the release is repeated asynchronously. A caller whose context has
// ended has left already.
const (
	releaseWait  = 250 * time.Millisecond
	releaseGrace = 50 * time.Millisecond
)

var (
	patient   = cohort.Patience{Most: clock.Forever} // as long as the Guard's StoreTimeout
	afterWork = cohort.Patience{Most: releaseWait, Grace: releaseGrace}
)

// WithLock runs fn while nothing else runs under the same key, in any process whose
// Guard has the same Redis and Prefix. fn's context ends, with a LostError as its
// cause, before another caller can take the lock; fn must watch it, for WithLock
// waits until fn returns.
//
// It returns fn's own error, unchanged, when the lock was held to the end, and
// errors.Join of the LostError and fn's error when it was lost, even if fn succeeded. An
// error that has the context's cause in it names the loss already, and is returned unchanged.
// If fn did not run, the error is a BusyError, a StoreError, a KeyError, an
// OptionError, ErrClosed, ErrNoGuard, or the end of ctx. Where ctx ended as a lease that it
// carries was lost, it is that LostError, and nothing else. A release that cannot be
// delivered is no error: WithLock returns after a quarter of a second, the release is repeated
// asynchronously, observers are notified, and the ttl frees the lock. A panic or
// runtime.Goexit in fn releases the lock and continues.
//
// On a key that ctx holds already, through this Guard, it re-enters: the hold is joined,
// options other than Wait are ignored, and the last call to end releases. That also
// means that goroutines which share a holder's context do not exclude each other on the
// holder's key; goroutines whose common context does not hold the key do.
//
// Only fn's own context, or a context that descends from it, re-enters. Under any other one, such
// as the caller's, fn would wait for itself: for as long as Wait allows, and then it is a
// BusyError like any other. A ctx that holds the key by another Guard of this process is an OptionError, if
// both have the same Prefix and the same client, or clients of the same address and database.
func (g *Guard) WithLock(ctx context.Context, key KeyFunc, fn func(ctx context.Context) error, opts ...LockOption) error {
	if fn == nil {
		return &OptionError{"fn", "is nil"}
	}
	c, err := g.prepare(ctx, key, opts)
	if err != nil {
		return err
	}
	l, err := g.acquire(ctx, &c)
	ctx = c.workContext(ctx)
	switch {
	case c.failOpen && isAcquireFailure(err):
		g.noteOutage(ctx, c.lock, c.ttl, err)
		g.observers.Event(ctx, c.lock, Event{Kind: EventFailedOpen, Op: "acquire", Err: err})
		return fn(ctx)
	case err != nil || c.replayed():
		return err
	}
	returned := false
	defer func() {
		if !returned {
			_ = l.endWork(ctx, c.asyncRelease)
		}
	}()
	err = fn(l.ctx) //nolint:contextcheck // it descends from ctx
	returned = true
	if lost := l.endWork(ctx, c.asyncRelease); lost != nil && !errors.Is(err, lost) { // else err has the loss already
		return errors.Join(lost, err)
	}
	return err
}

// Acquire takes a lock and returns its lease, which the caller must Release. Errors are
// those of WithLock when fn did not run. It refuses FailOpen with an OptionError.
func (g *Guard) Acquire(ctx context.Context, key KeyFunc, opts ...LockOption) (*Lease, error) {
	if err := refuseFailOpen(opts, "Acquire", "lease"); err != nil {
		return nil, err
	}
	c, err := g.prepare(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return g.acquire(ctx, &c)
}

// Do is WithLock for work that has a result. With a nil Guard it uses the Guard that the
// package's WithLock would. The result is fn's, also when the lock was lost; it is the
// zero value when fn did not run.
func Do[T any](ctx context.Context, g *Guard, key KeyFunc, fn func(ctx context.Context) (T, error), opts ...LockOption) (T, error) {
	var result T
	if fn == nil {
		return result, &OptionError{"fn", "is nil"}
	}
	if g == nil {
		g = guardFor(ctx)
	}
	err := g.WithLock(ctx, key, func(ctx context.Context) (err error) {
		result, err = fn(ctx)
		return err
	}, opts...)
	return result, err
}

// WithLock is Guard.WithLock of the Guard in ctx (see WithGuard; middleware puts it
// there), else of the one whose lock ctx holds, else of the one given to SetDefault. With
// none of them it returns ErrNoGuard.
func WithLock(ctx context.Context, key KeyFunc, fn func(ctx context.Context) error, opts ...LockOption) error {
	return guardFor(ctx).WithLock(ctx, key, fn, opts...)
}

var defaultGuard atomic.Pointer[Guard]

// SetDefault sets the Guard that the package's functions, such as WithLock and Do, use where
// the context carries none. nil unsets it. It may be called from many goroutines; calls that
// have begun keep the Guard that they found.
func SetDefault(g *Guard) { defaultGuard.Store(g) }

func guardFor(ctx context.Context) *Guard {
	if ctx != nil {
		if g, _ := ctx.Value(guardKey{}).(*Guard); g != nil {
			return g
		}
	}
	if l := leaseIn(ctx); l != nil {
		return l.hold.g
	}
	return defaultGuard.Load()
}

// call is one request for a lock, checked.
type call struct {
	settings
	lock  Lock
	under *Lease        // the innermost in the caller's ctx
	outer *Lease        // the innermost in ctx, which may be one of the same call; nil until acquire
	begun clock.Instant // when the key was asked for
	since clock.Instant // when Wait began; 0 = with the claim
	alone bool          // MaxHold is counted later: it is not for others

	waitCtx context.Context //nolint:containedctx // that of WaitStart, for WaitEnd
	claimed *claimed        // unless the key is still to be asked for
}

func (g *Guard) prepare(ctx context.Context, key KeyFunc, opts []LockOption) (c call, err error) {
	if c.settings, err = g.settingsOf(ctx, opts); err != nil {
		return c, err
	}
	if c.lock.Key, err = resolveKey(ctx, key); err != nil {
		return c, err
	}
	c.under = leaseIn(ctx)
	if c.metadataOf != nil && c.under.inChain(g, c.lock.Key) == nil {
		if c.metadata, err = c.callMetadata(ctx); err != nil {
			return c, err
		}
	}
	c.lock.Name, c.lock.Limit = cmp.Or(c.name, formats.Name(formatOf(key))), c.limit //nolint:contextcheck // no key is asked for
	return c, nil
}

// settingsOf checks the Guard and the arguments of a call, except its keys.
func (g *Guard) settingsOf(ctx context.Context, opts []LockOption) (settings, error) {
	if err := g.usable(); err != nil {
		return settings{}, err
	}
	switch {
	case ctx == nil:
		return settings{}, &OptionError{"ctx", "is nil"}
	case len(opts) == 0:
		return g.lock, nil // an option would put the settings on the heap
	}
	return g.lock.with(opts)
}

// refuseFailOpen is for calls that return a lease.
func refuseFailOpen(opts []LockOption, method, result string) error {
	if given, _ := (settings{}).with(opts); given.failOpen { // the call finds the error of an option
		return &OptionError{"FailOpen", "does not go with " + method + ": there would be no " + result + " to return"}
	}
	return nil
}

// acquire re-enters the hold that ctx carries, or claims the key. There is no lease if Once kept the result: see
// call.replayed.
func (g *Guard) acquire(ctx context.Context, c *call) (*Lease, error) {
	c.outer = leaseIn(ctx)
	if err := g.checkCall(c); err != nil {
		return nil, err
	}
	c.begun = clock.Now()
	if c.claimed != nil {
		c.begun = c.claimed.begun
	}
	c.waitCtx = g.observers.WaitStart(ctx, c.lock)
	if found := c.outer.inChain(g, c.lock.Key); found != nil {
		return found.reenter(ctx, c)
	}
	var got claimed
	if c.claimed != nil {
		got = *c.claimed
	} else {
		got = g.claim(c.waitCtx, c) //nolint:contextcheck // it descends from ctx
	}
	if got.err != nil || c.replayed() {
		err := g.waitEnd(ctx, c, 0, got.waited, got.err)
		g.observeRecord(ctx, c, err)
		return nil, err
	}
	kept := false
	defer func() {
		if !kept { // an Observer panicked
			g.releaseUnused(ctx, got.hold)
		}
	}()
	_ = g.waitEnd(ctx, c, 1, got.waited, nil)
	l := g.newHold(c.workContext(ctx), c, got.hold)
	if c.once != nil {
		c.once.hold = l.hold
	}
	kept = true
	return l, nil
}

// reenter joins the hold of a lease that ctx carries.
func (l *Lease) reenter(ctx context.Context, c *call) (inner *Lease, err error) {
	g := l.hold.g
	if err = l.checkUpgrade(c); err == nil {
		inner, err = l.hold.enter(ctx, l)
	}
	if err != nil {
		return nil, g.waitEnd(ctx, c, 0, cohort.Waited{}, err)
	}
	kept := false
	defer func() {
		if !kept { // an Observer panicked
			_ = inner.endWork(ctx, true)
		}
	}()
	_ = g.waitEnd(ctx, c, inner.depth, cohort.Waited{}, nil)
	inner.begin(ctx)
	kept = true
	return inner.hold.admit(ctx, inner)
}

// waitEnd notifies the observers of how the wait ended, and returns the caller's error.
func (g *Guard) waitEnd(ctx context.Context, c *call, depth int, w cohort.Waited, err error) error {
	result := err
	if err != nil {
		result = g.orLoss(ctx, err)
	}
	g.observers.WaitEnd(c.waitCtx, c.lock, WaitResult{ //nolint:contextcheck // as above
		Outcome: c.outcome(err), Elapsed: clock.Now().Sub(c.begun),
		Queued: w.Queued, Local: w.Local, Depth: depth, Holder: w.Holder, Err: result,
	})
	return result
}

// workContext returns the context of the work and its release, given that of the call. Work under another lock has to end
// with that lock, whose loss no other context shows.
func (c *call) workContext(ctx context.Context) context.Context {
	if c.once != nil && c.once.detached && c.under == nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// claimed is the answer to a claim: a hold, a result that Once kept, or an error.
type claimed struct {
	begun  clock.Instant
	hold   cohort.Hold
	waited cohort.Waited
	err    error
}

// claim takes a key that ctx does not hold, waiting for it as the call allows.
func (g *Guard) claim(ctx context.Context, c *call) (got claimed) {
	got.begun = c.begun
	stop, open := g.inside.Enter(c.under.under(g))
	if !open {
		got.err = ErrClosed
		return got
	}
	g.heartbeat.touch(c.begun) //nolint:contextcheck // the name outlives the caller
	taken := false
	defer func() {
		if !taken {
			g.inside.Leave()
		}
	}()
	r := cohort.Request{
		Label:   retry.Label(c.lock),
		Claim:   guardstore.Claim{Key: c.lock.Key, TTL: c.ttl, Limit: c.limit, Metadata: c.metadata},
		MinHold: c.minHold, Waits: c.wait > 0, Until: clock.Never,
		Alone: c.alone || c.maxHold > 0 && c.limit == guardstore.Unlimited,
	}
	if c.once != nil {
		r.Claim.Once = &c.once.Once
	}
	if c.failOpen {
		r.Down = g.outage(ctx, c.lock.Key)
	}
	since := cmp.Or(c.since, c.begun)
	if c.wait <= clock.Forever {
		r.Until = since.Add(c.wait)
	}
	got.hold, got.waited, got.err = g.cohorts.Acquire(ctx, &r, c.begun, stop)
	if taken = got.err == nil; !taken {
		got.err = c.failure(ctx, since, got.waited, got.err)
	}
	return got
}

// failure returns the caller's error for an error of its cohort. It is nil if Once kept the result.
func (c *call) failure(ctx context.Context, since clock.Instant, w cohort.Waited, err error) error {
	var failure *retry.Error
	var recorded *cohort.RecordedError
	switch {
	case errors.Is(err, cohort.ErrClosed), errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case errors.Is(err, cohort.ErrBusy):
		return c.busy(since, w, nil)
	case errors.Is(err, cohort.ErrEnded) && w.Busy:
		return c.busy(since, w, ended(ctx))
	case errors.As(err, &recorded):
		return c.recorded(recorded.Record)
	case errors.As(err, &failure) && (failure.Refused || ctx.Err() == nil):
		return storeError(failure, c.lock.Name)
	}
	return ended(ctx)
}

// busy returns the error of a call whose wait ended. cause is the end of its context, if that ended the wait.
func (c *call) busy(since clock.Instant, w cohort.Waited, cause error) *BusyError {
	e := &BusyError{
		Name: c.lock.Name, Key: c.lock.Key, Holder: w.Holder, Limit: w.Limit, Err: cause,
		RetryAfter: time.Second + rand.N(time.Second),
	}
	if c.wait > 0 {
		e.Waited = clock.Now().Sub(since)
	}
	if left := w.MinHoldUntil.Until(); left > 0 {
		e.HeldOver, e.RetryAfter = true, max(left, time.Second)
	}
	return e
}

// outcome says how a wait ended: with err, or with a lease.
func (c *call) outcome(err error) string {
	var busy *BusyError
	switch {
	case c.replayed():
		return OutcomeRecorded
	case err == nil:
		return OutcomeAcquired
	case errors.As(err, new(*OnceError)):
		return OutcomeRecorded
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case errors.As(err, &busy) && busy.Err == nil && busy.Waited == 0:
		return OutcomeBusy
	case errors.As(err, &busy) && busy.Err == nil:
		return OutcomeTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return OutcomeCanceled
	}
	return OutcomeError
}

// isAcquireFailure distinguishes the StoreError of an acquisition from that of a re-entry, whose
// options do not count.
func isAcquireFailure(err error) bool {
	var failure *StoreError
	return errors.As(err, &failure) && failure.Op == "acquire"
}
