package guard

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
)

// Lease is one call's part in a hold: what Acquire returns, and what WithLock keeps for
// its work. Re-entry gives a Lease of its own on the same hold; they may end in any
// order, and the last one to end releases the lock. The methods may be called from many
// goroutines.
//
// Only Acquire and WithLock make one. With an error, Acquire returns nil, whose methods panic.
type Lease struct {
	hold    *hold
	parent  *Lease          // the lease of the same hold that this one was opened under
	outer   *Lease          // the next lease in the chain of the context
	ctx     context.Context //nolint:containedctx // a lease is made for handing it out
	own     leaseContext    // memory for ctx
	cancel  context.CancelCauseFunc
	depth   int
	started clock.Instant
	lost    *LostError // the result of the first Release; read once settled
	failure error      // likewise

	// Guarded by hold.mu.
	refs     int           // this lease while it is not released, and each lease opened under it
	released bool          // Release was called
	settled  bool          // it has its result
	settling chan struct{} // closed then; made for callers that wait
	observed bool          // HoldStart was called and HoldEnd was not
}

// leaseContext carries a lease, and is part of its memory: context.WithValue would allocate.
type leaseContext struct {
	context.Context //nolint:containedctx // it is one

	lease *Lease
}

// Value implements context.Context.
func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

func leaseIn(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// inChain returns the innermost lease of g on key, held or not, from a context's innermost lease on, which may be nil.
func (l *Lease) inChain(g *Guard, key string) *Lease {
	for ; l != nil; l = l.outer {
		if l.hold.g == g && l.Key() == key {
			return l
		}
	}
	return nil
}

// under returns whether a context with this innermost lease runs under a lease of g that is held.
func (l *Lease) under(g *Guard) bool {
	for ; l != nil; l = l.outer {
		if l.hold.g == g && l.Err() == nil {
			return true
		}
	}
	return false
}

// Context is derived from the caller's. It ends when the hold is lost (its cause is the
// LostError then), when this lease and all that were opened under it are released, and
// when the Guard closes.
func (l *Lease) Context() context.Context { return l.ctx }

// Key returns the key of the lock.
func (l *Lease) Key() string { return l.hold.Label.Key }

// Fence is the fencing token: larger than that of every earlier hold of the key, below
// 2^53. Tokens of one key can be compared; those of different keys cannot. See Martin
// Kleppmann, "How to do distributed locking" (2016).
func (l *Lease) Fence() uint64 { return l.hold.Fence }

// Deadline is when the lease ends if it is never renewed again. Renewal moves it. It does
// not ask Redis: Check finds out that a key was deleted.
func (l *Lease) Deadline() time.Time { return l.hold.Deadline().Time() }

// Err is nil while the lease is held, else the LostError that says why it is not.
func (l *Lease) Err() error {
	if err := l.hold.err(); err != nil {
		return err
	}
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.released {
		return l.hold.lostError(ErrReleased)
	}
	return nil
}

// Release ends the lease; the last one of a hold releases the lock. It may be called
// more than once: later calls wait for the first one's result and return it.
//
// The result is nil when the lock was held to the end and the release was confirmed, a
// LostError when it was lost before, and a StoreError or the error of ctx when the
// release is not confirmed. ctx bounds the wait only: the release is sent even if ctx has
// ended, and repeated asynchronously until the lease's deadline. After that the ttl
// frees the lock. A nil ctx bounds nothing.
func (l *Lease) Release(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if ctx == nil {
		ctx = context.Background()
	}
	l.end(ctx, patient)
	if settling := l.unsettled(); settling != nil {
		select {
		case <-settling:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	if l.lost != nil {
		return l.lost
	}
	return l.failure
}

// Check asks the store now whether the hold is still there, and so finds out sooner than
// the next renewal would: before a step that cannot be taken back, say. It returns nil, or
// the LostError of the hold, whose context has ended then. A lease that was released is a
// LostError with ErrReleased. When the store does not answer within StoreTimeout it is a
// StoreError, and the hold stays; when ctx ends first, its error. A nil ctx does not end.
func (l *Lease) Check(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if err := l.Err(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	h := l.hold
	err := h.callerError(ctx, h.Check(ctx, "check", patient))
	if lost := l.Err(); lost != nil {
		return lost // the loss is the reason, whatever the error
	}
	return err
}

// unsettled returns a channel that is closed when the first Release is done, or nil if it is done.
func (l *Lease) unsettled() <-chan struct{} {
	l.hold.mu.Lock()
	defer l.hold.mu.Unlock()
	if l.settled {
		return nil
	}
	if l.settling == nil {
		l.settling = make(chan struct{})
	}
	return l.settling
}

// end releases the lease, once. It waits for the store as p allows.
func (l *Lease) end(ctx context.Context, p cohort.Patience) {
	if e, first := l.beginEnd(); first {
		l.finishEnd(ctx, p, e)
	}
}

// endWork ends the lease of work that is done, and returns its loss, if that is known. With async
// it does not wait for the release.
func (l *Lease) endWork(ctx context.Context, async bool) *LostError {
	if e, first := l.beginEnd(); first {
		if async && l.endAsync(ctx, e) {
			return e.lost
		}
		l.finishEnd(ctx, afterWork, e)
	} else if settling := l.unsettled(); settling != nil {
		<-settling
	}
	return l.lost
}

// endAsync sends the release from a goroutine of the Guard. It returns false if the Guard is closed.
func (l *Lease) endAsync(ctx context.Context, e ending) (begun bool) {
	h := l.hold
	if e.ends && h.Label.Limit != guardstore.Unlimited {
		h.PassOn()
	}
	return h.g.tasks.Go(func() { l.finishEnd(context.WithoutCancel(ctx), patient, e) })
}

// ending says what the end of a lease means for its hold.
type ending struct {
	lost *LostError // the hold has ended by a loss
	last bool       // no lease of the hold is left
	ends bool       // this ends the hold, which had not ended before
}

// beginEnd ends the lease within this process, once: it is counted out, and the contexts of leases under which nothing
// is open any more end, from this lease up.
func (l *Lease) beginEnd() (e ending, first bool) {
	h := l.hold
	h.mu.Lock()
	if l.released {
		h.mu.Unlock()
		return ending{}, false
	}
	l.released = true
	delete(h.inner, l)
	h.depth--
	h.SetDepth(h.depth)
	e = ending{lost: h.reason, last: h.depth == 0, ends: h.depth == 0 && h.reason == nil}
	if e.ends {
		cause := h.Drop(h)
		h.end = h.endedBy(cmp.Or(cause, ErrReleased))
		h.reason = &h.end
		if cause != nil {
			e.lost = h.reason
		}
	}
	reason, open := h.reason, l
	for open != nil {
		if open.refs--; open.refs > 0 {
			break
		}
		open = open.parent
	}
	h.mu.Unlock()
	for n := l; n != open; n = n.parent {
		if reason == nil {
			reason = h.lostError(ErrReleased)
		}
		n.cancel(reason)
	}
	return e, true
}

// finishEnd ends the lease in the store, and notifies the observers.
func (l *Lease) finishEnd(ctx context.Context, p cohort.Patience, e ending) {
	h := l.hold
	// All of this is done even if an Observer panics.
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		l.settled = true
		if l.settling != nil {
			close(l.settling)
		}
	}()
	if e.ends { // it entered in Guard.claim; after a loss, ReportLoss leaves
		defer h.g.inside.Leave()
	}
	lostNow := e.ends && e.lost != nil
	if lostNow {
		defer func() {
			h.reportLoss(e.lost)
			l.observeEnd(e.lost)
		}()
	}
	if e.last {
		l.lost, l.failure = h.release(ctx, e.lost, p)
	} else {
		if e.lost == nil {
			_ = h.sendDepth(ctx, "leave", p) // renewal carries the counter, too
		}
		l.lost = h.lossSoFar()
	}
	if !lostNow {
		l.observeEnd(l.lost)
	}
}

// observeEnd notifies the observers of the end of the lease, once.
func (l *Lease) observeEnd(lost *LostError) {
	l.hold.mu.Lock()
	observed := l.observed
	l.observed = false
	l.hold.mu.Unlock()
	if !observed {
		return
	}
	r := HoldResult{
		Hold:    Hold{Fence: l.Fence(), Depth: l.depth},
		Outcome: OutcomeReleased,
		Elapsed: clock.Now().Sub(l.started),
	}
	if lost != nil {
		r.Err = lost
		switch {
		case errors.Is(lost, ErrMaxHold):
			r.Outcome = OutcomeMaxHold
		case errors.Is(lost, ErrClosed):
			r.Outcome = OutcomeClosed
		default:
			r.Outcome = OutcomeLost
		}
	}
	l.hold.g.observers.HoldEnd(l.ctx, Lock(l.hold.Label), r)
}
