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

var afterWork = cohort.Patience{Most: releaseWait, Grace: releaseGrace}

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
	if err != nil {
		if c.failOpen && isAcquireFailure(err) {
			g.noteOutage(ctx, c.lock, c.ttl, err)
			g.observers.Event(ctx, c.lock, Event{Kind: EventFailedOpen, Op: "acquire", Err: err})
			return fn(ctx)
		}
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
	since clock.Instant // when Wait began; 0 = with the claim
	alone bool          // MaxHold is counted later: it is not for others

	claimed *claimed // unless the key is still to be asked for
}

func (g *Guard) prepare(ctx context.Context, key KeyFunc, opts []LockOption) (c call, err error) {
	if c.settings, err = g.settingsOf(ctx, opts); err != nil {
		return c, err
	}
	if c.lock.Key, err = resolveKey(ctx, key); err != nil {
		return c, err
	}
	if c.metadataOf != nil && g.inChain(ctx, c.lock.Key) == nil {
		if c.metadata, err = c.callMetadata(ctx); err != nil {
			return c, err
		}
	}
	c.lock.Name, c.lock.Limit = c.nameFor(key), c.limit //nolint:contextcheck // no key is asked for
	c.under = leaseIn(ctx)
	return c, nil
}

// settingsOf checks the arguments of a call, except its keys.
func (g *Guard) settingsOf(ctx context.Context, opts []LockOption) (settings, error) {
	switch {
	case !g.made():
		return settings{}, ErrNoGuard
	case ctx == nil:
		return settings{}, &OptionError{"ctx", "is nil"}
	}
	return g.lock.with(opts)
}

// refuseFailOpen is for calls that return a lease.
func refuseFailOpen(opts []LockOption, method, result string) error {
	given, err := settings{}.with(opts)
	if err == nil && given.failOpen {
		err = &OptionError{"FailOpen", "does not go with " + method + ": there would be no " + result + " to return"}
	}
	return err
}

// acquire re-enters the hold that ctx carries, or claims the key.
func (g *Guard) acquire(ctx context.Context, c *call) (l *Lease, err error) {
	if err := g.checkLimit(&c.settings); err != nil {
		return nil, err
	}
	if c.once != nil {
		if err := g.checkOnce(c); err != nil {
			return nil, err
		}
	}
	begun := clock.Now()
	if c.claimed != nil {
		begun = c.claimed.begun
	}
	if err := g.checkSide(begun); err != nil {
		return nil, err
	}
	if err := g.checkOtherGuards(ctx, c); err != nil {
		return nil, err
	}
	waitCtx := g.observers.WaitStart(ctx, c.lock)
	waited := func(depth int, w cohort.Waited, err error) (result error) {
		result = g.orLoss(ctx, err)
		if len(g.observers) > 0 {
			r := WaitResult{
				Outcome: waitOutcome(err), Elapsed: clock.Now().Sub(begun),
				Queued: w.Queued, Local: w.Local, Depth: depth, Holder: w.Holder, Err: result,
			}
			if errors.Is(result, errReplayed) {
				r.Err = nil
			}
			g.observers.WaitEnd(waitCtx, c.lock, r)
		}
		return result
	}
	c.outer = leaseIn(ctx)
	if found := c.outer.inChain(g, c.lock.Key); found != nil {
		return found.reenter(ctx, c, waited)
	}
	var got cohort.Hold
	var w cohort.Waited
	if c.claimed != nil {
		got, w, err = c.claimed.hold, c.claimed.waited, c.claimed.err
	} else {
		got, w, err = g.claim(waitCtx, c, begun)
	}
	if err != nil {
		err = waited(0, w, err)
		g.observeRecord(ctx, c.lock, err)
		return nil, err
	}
	kept := false
	defer func() {
		if !kept { // an Observer panicked
			g.releaseUnused(ctx, got)
		}
	}()
	_ = waited(1, w, nil)
	l = g.newHold(c.workContext(ctx), c, got)
	if c.once != nil {
		c.once.hold = l.hold
	}
	kept = true
	return l, nil
}

// reenter joins the hold of a lease that ctx carries.
func (l *Lease) reenter(ctx context.Context, c *call, waited func(int, cohort.Waited, error) error) (inner *Lease, err error) {
	if err = l.checkUpgrade(c); err == nil {
		inner, err = l.hold.enter(ctx, l)
	}
	if err != nil {
		return nil, waited(0, cohort.Waited{}, err)
	}
	kept := false
	defer func() {
		if !kept { // an Observer panicked
			_ = inner.endWork(ctx, true)
		}
	}()
	_ = waited(inner.depth, cohort.Waited{}, nil)
	inner.begin(ctx)
	kept = true
	return inner.hold.admit(ctx, inner)
}

// workContext returns the context of the work and its release, given that of the call. Work under another lock has to end
// with that lock, whose loss no other context shows.
func (c *call) workContext(ctx context.Context) context.Context {
	if c.once != nil && c.once.detached && c.under == nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// claim takes a key that ctx does not hold, waiting for it as the call allows.
func (g *Guard) claim(ctx context.Context, c *call, begun clock.Instant) (cohort.Hold, cohort.Waited, error) {
	stop, open := g.inside.Enter(c.under.under(g))
	if !open {
		return cohort.Hold{}, cohort.Waited{}, ErrClosed
	}
	g.heartbeat.touch(begun) //nolint:contextcheck // the name outlives the caller
	taken := false
	defer func() {
		if !taken {
			g.inside.Leave()
		}
	}()
	var down error
	if c.failOpen {
		down = g.outage(ctx, c.lock.Key)
	}
	since, until := cmp.Or(c.since, begun), clock.Never
	if c.wait <= clock.Forever {
		until = since.Add(c.wait)
	}
	got, w, err := g.cohorts.Acquire(ctx, &cohort.Request{
		Label:   retry.Label(c.lock),
		Claim:   guardstore.Claim{Key: c.lock.Key, TTL: c.ttl, Limit: c.limit, Metadata: c.metadata, Once: c.once.record()},
		MinHold: c.minHold, Waits: c.wait > 0, Until: until, Down: down,
		Alone: c.alone || c.maxHold > 0 && c.limit == guardstore.Unlimited,
	}, begun, stop)
	if taken = err == nil; !taken {
		err = c.failure(ctx, since, w, err)
	}
	return got, w, err
}

// failure returns the caller's error for an error of its cohort.
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

func waitOutcome(err error) string {
	if err == nil {
		return OutcomeAcquired
	}
	var busy *BusyError
	switch {
	case errors.Is(err, errReplayed), errors.As(err, new(*OnceError)):
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
