package cohort

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// Request is what a caller wants.
type Request struct {
	Label   retry.Label
	Claim   guardstore.Claim // Acquire chooses the owner, and whether it queues
	MinHold time.Duration
	Waits   bool          // in the queue; else the caller gets the store's next answer
	Until   clock.Instant // its wait ends then; clock.Never = with ctx only
	Down    error         // a known outage, because of which the store is not asked; nil = ask
	Alone   bool          // the call shares no grant, also with Limit or Shared
}

// State describes the holder of a key, as far as this process knows.
type State struct {
	Busy         bool             // there is one: the store said so, or it is this process
	Holder       string           // its Metadata, as far as is known
	Limit        guardstore.Limit // as in guardstore.ClaimReply
	MinHoldUntil clock.Instant    // its work has ended, and its MinHold ends then; 0 = it still works
}

// Waited is how a caller waited for its lock, with or without success.
type Waited struct {
	State  // what was known last of the holder
	Queued bool
	Local  bool // the lock was handed over within this process
}

// Acquire takes a key, and waits for it as the request allows. begun is when the call began.
// The end of ctx ends the wait; so does stop, once Dismiss was called. The error is ErrBusy,
// ErrClosed, ErrEnded, a *RecordedError or a *retry.Error.
func (t *Table) Acquire(ctx context.Context, r *Request, begun clock.Instant, stop <-chan struct{}) (Hold, Waited, error) {
	w, _ := t.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{results: make(chan result, 1)}
	}
	w.table, w.Request, w.begun, w.stop = t, *r, begun, stop
	h, err := w.acquire(ctx)
	waited := w.waited
	*w = waiter{results: w.results, timer: w.timer} // it is in no queue, and its result was read
	t.waiters.Put(w)
	return h, waited, err
}

// waiter is one call that wants a key.
type waiter struct {
	Request

	table   *Table
	begun   clock.Instant
	stop    <-chan struct{} // in the queue, Dismiss ends the wait
	results chan result     // one slot
	timer   *time.Timer     // stopped; nil until a call has to wait
	waited  Waited

	// Guarded by Table.mu while it is in the queue.
	place *list.Element
	seen  State // when the call joined, or when its wait ended
	asks  bool  // its wait has ended, or was none: it gets the store's next answer
}

// result is what a call gets: a hold, or an error.
type result struct {
	hold  Hold
	local bool  // from another caller of this process
	err   error // ErrBusy (waiter.seen has the holder), a *RecordedError, or why there is no answer
}

// acquire joins the callers of this process that want the key, and waits for a result.
func (w *waiter) acquire(ctx context.Context) (Hold, error) {
	for ctx.Err() == nil {
		w.seen, w.asks = State{}, false
		var got result
		if c, first := w.table.join(ctx, w); first {
			got = w.ask(ctx, c)
		} else {
			got = w.wait(ctx, c)
		}
		w.waited.Local = got.local
		if got.err == ErrBusy { //nolint:errorlint // it comes bare
			w.noteBusy()
		}
		if got.err != nil {
			return Hold{}, got.err
		}
		if ctx.Err() == nil && got.hold.Err() == nil {
			return got.hold, nil
		}
		// The caller has left, or the grant came too late to be used: that is a busy machine, not a
		// busy lock.
		unused := got.hold // in memory of its own, which only this case needs
		t := w.table
		t.async(ctx, func(ctx context.Context) { _, _ = unused.Release(ctx, Patience{Most: t.Calls.Timeout}) })
	}
	return Hold{}, ErrEnded
}

// noteBusy notes the lock's holder, if it is known.
func (w *waiter) noteBusy() {
	if w.seen.Busy {
		w.waited.State = w.seen
	}
}

// ask sends the claim of the first caller. If the claim has to wait, it serves the callers in the queue.
func (w *waiter) ask(ctx context.Context, c *cohort) result {
	t, request := w.table, w.Claim
	request.Owner, request.Queue = t.NewOwner(request.Limit), w.Waits
	request.Unsubscribed = !t.notifier.subscribed.Load() // a free key needs no messages
	missed, answered := t.notifier.missed.Load(), false
	defer func() {
		if !answered { // an observer of failures panicked: there may be callers in the queue by now
			cl := newClaim(c, w.Label, request)
			cl.trace = inDoubt
			c.addClaim(ctx, cl, nil)
		}
	}()
	a, err := retry.Do(ctx, t.Calls, retry.Call{Op: acquireOp, Label: w.Label, For: t.Calls.Timeout, Stop: w.stop}, t.Store.Acquire, request)
	answered = true
	reply := a.Reply
	if err == nil && reply.Status == guardstore.ClaimHeld {
		return c.admitFirst(w, &grant{Grant: t.watchdog.NewGrant(request, reply, a.Sent, a.InDoubt)})
	}
	cl := newClaim(c, w.Label, request)
	cl.missed = missed
	if a.InDoubt {
		cl.trace = inDoubt
	}
	switch {
	case err != nil:
		err = w.failure(ctx, err)
		if errors.As(err, new(*retry.Error)) {
			c.failQueue(err)
		}
	case reply.Status == guardstore.ClaimBusy:
		cl.noteBusy(reply)
		w.seen = stateOf(reply)
		w.noteBusy()
		c.setHolder(w.seen)
		if w.Waits {
			t.notifier.begin()
		} else {
			err = ErrBusy
		}
	case reply.Status == guardstore.ClaimRecorded:
		err = &RecordedError{reply.Record}
		c.failQueue(err)
	case reply.Status == guardstore.ClaimFinished:
		cl.signals.put(acquireNow) // the claim starts over under a new owner
	}
	if err != nil {
		c.addClaim(ctx, cl, nil)
		return result{err: err}
	}
	c.addClaim(ctx, cl, w)
	return w.wait(ctx, c)
}

// failure returns the caller's error for an acquire that was not answered, or refused.
func (w *waiter) failure(ctx context.Context, err error) error {
	var failure *retry.Error
	switch {
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case ctx.Err() != nil && errors.As(err, &failure) && !failure.Refused:
		return ErrEnded
	}
	return err
}

// wait waits in the queue. A call whose wait has ended, or was none, may have to wait for the store's
// answer that the lock is busy. Without an answer the error is not ErrBusy: the store was out of reach.
func (w *waiter) wait(ctx context.Context, c *cohort) result {
	select {
	case got := <-w.results: // join gave it
		return got
	default:
		w.waited.Queued = w.Waits
	}
	asks, until := !w.Waits, w.Until
	if asks {
		until = w.begun.Add(w.table.Calls.Timeout)
	}
	var timeout <-chan time.Time
	if until != clock.Never {
		if w.timer == nil {
			w.timer = time.NewTimer(until.Until())
		} else {
			w.timer.Reset(until.Until())
		}
		defer w.timer.Stop()
		timeout = w.timer.C
	}
	for {
		select {
		case got := <-w.results:
			return got
		case <-timeout:
			if !asks && c.askBeforeLeaving(w) {
				asks = true
				w.timer.Reset(w.table.Calls.Timeout)
				continue
			}
		case <-ctx.Done():
		}
		return w.leave(ctx, c, asks)
	}
}

// leave takes a caller that waits no more out of the queue. What it was given meanwhile is its
// result. asked says that it asked the store, and got no answer in time.
func (w *waiter) leave(ctx context.Context, c *cohort, asked bool) result {
	if got, given := c.leave(w); given {
		return got
	}
	w.noteBusy()
	switch {
	case ctx.Err() != nil:
		return result{err: ErrEnded}
	case task.IsClosed(w.stop):
		return result{err: ErrClosed}
	case asked, !w.waited.Busy:
		// The lock is not known to be busy: the claim for this call is unanswered.
		return result{err: &retry.Error{Op: acquireOp, Key: w.Label.Key, Err: retry.ErrNoAnswer}}
	}
	return result{err: ErrBusy}
}
