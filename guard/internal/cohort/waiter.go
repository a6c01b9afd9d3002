package cohort

import (
	"cmp"
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
	Label    retry.Label // with the key
	TTL      time.Duration
	Limit    guardstore.Limit
	Metadata string
	MinHold  time.Duration
	Once     *guardstore.Once // nil = the caller asks for no record
	Wait     time.Duration    // 0 = not at all; more than clock.Forever/2 = for ever
	Since    clock.Instant    // Wait counts from then; 0 = from begun
	FailOpen bool             // the caller goes on without a lock if the store does not answer
	Down     error            // a known outage, because of which the store is not asked; nil = ask
	Alone    bool             // the call shares no grant, also with Limit or Shared
}

// Waited says how a caller waited for its lock, with or without success.
type Waited struct {
	Queued bool
	Local  bool // it was handed over within this process

	// What was known last of the key's holder, if Busy.
	Busy         bool
	Holder       string
	Limit        guardstore.Limit // as in guardstore.ClaimReply
	MinHoldUntil clock.Instant    // its work had ended, and its MinHold ended then; 0 = it still worked
}

// Acquire takes a key, and waits for it as the request allows. begun is when the call began.
// The end of ctx ends the wait; so does stop, once Dismiss was called. The error is ErrBusy,
// ErrClosed, ErrEnded, a *RecordedError or an *Error.
func (t *Table) Acquire(ctx context.Context, r *Request, begun clock.Instant, stop <-chan struct{}) (Hold, Waited, error) {
	w, _ := t.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{results: make(chan result, 1)}
	}
	w.table, w.Request, w.begun, w.stop = t, *r, begun, stop
	w.Since = cmp.Or(r.Since, begun)
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
	seen  lockState // the lock's holder when the call joined, or when its wait ended
	asks  bool      // its wait has ended, or was none: it gets the store's next answer
}

type acquireCall = retry.Call[guardstore.Claim, guardstore.ClaimReply]

// request makes the claim of the caller.
func (w *waiter) request() guardstore.Claim {
	return guardstore.Claim{
		Key: w.Label.Key, Owner: w.table.newOwner(w.Limit), TTL: w.TTL, Metadata: w.Metadata, Limit: w.Limit,
		Once: w.Once,
	}
}

// acquire joins the callers of this process that want the key, and waits for a result.
func (w *waiter) acquire(ctx context.Context) (Hold, error) {
	for ctx.Err() == nil {
		w.seen, w.asks = lockState{}, false
		c, first, queued, added := w.table.join(w)
		got := result{err: ErrBusy}
		switch {
		case first:
			got = w.claim(ctx, c)
		case queued:
			c.startClaims(ctx, added)
			got = w.wait(ctx, c)
		}
		if got.err == ErrBusy { //nolint:errorlint // it comes bare
			w.noteBusy()
		}
		if got.err != nil {
			return Hold{}, got.err
		}
		if got.how == joined {
			w.waited = Waited{}
		}
		w.waited.Local = got.how != granted
		if ctx.Err() == nil && clock.Now() < got.hold.Deadline() {
			return got.hold, nil
		}
		// The caller has left, or the grant came too late to be used: that is a busy machine, not a
		// busy lock.
		unused := got.hold // in memory of its own, which only this case needs
		_, _ = unused.Release(ctx, Patience{})
	}
	return Hold{}, ErrEnded
}

// noteBusy notes the lock's holder, if it is known.
func (w *waiter) noteBusy() {
	if w.seen.busy {
		w.waited = Waited{
			Queued: w.Wait > 0, Busy: true, Holder: w.seen.holder, Limit: w.seen.limit, MinHoldUntil: w.seen.minHoldUntil,
		}
	}
}

// claim sends the claim of the first caller, unless the store is known to be down. If the claim has to
// wait, it goes on for the callers in the queue.
func (w *waiter) claim(ctx context.Context, c *cohort) result {
	t := w.table
	request := w.request()
	if w.Down != nil {
		c.failFast(w.Down)
		c.addClaim(ctx, newClaim(c, w.Label, request), nil)
		return result{err: w.Down}
	}
	begun, answered := clock.Now(), false
	defer func() {
		if !answered { // an observer of failures panicked: there may be callers in the queue by now
			cl := newClaim(c, w.Label, request)
			cl.trace = inDoubt
			c.addClaim(ctx, cl, nil)
		}
	}()
	if request.Queue = w.Wait > 0; request.Queue {
		t.notifier.queues.Store(true)
		request.Unsubscribed = !t.notifier.subscribed.Load() // a free key needs no messages
	}
	missed := t.notifier.missed.Load()
	call := retry.NewCall(t.Calls, acquireOp, w.Label, t.acquire, request)
	reply, err := call.Run(ctx, w.stop, begun.Add(t.Calls.Timeout))
	answered = true
	if err == nil && reply.Status == guardstore.ClaimHeld {
		return c.admitFirst(ctx, w, c.newGrant(request, reply, call.Sent, call.InDoubt))
	}
	cl := newClaim(c, w.Label, request)
	cl.missed = missed
	if call.InDoubt {
		cl.trace = inDoubt
	}
	switch {
	case err != nil:
		err = w.failure(ctx, call, err)
		if failure := (*retry.Error)(nil); errors.As(err, &failure) {
			c.failAll(err)
		}
		c.addClaim(ctx, cl, nil)
		return result{err: err}
	case reply.Status == guardstore.ClaimBusy:
		cl.queued(reply)
		w.seen = lockStateOf(reply)
		w.noteBusy()
		c.setHolder(w.seen)
		if w.Wait == 0 {
			c.addClaim(ctx, cl, nil)
			return result{err: ErrBusy}
		}
		t.notifier.begin() //nolint:contextcheck // the subscription outlives the caller
	case reply.Status == guardstore.ClaimRecorded:
		c.recorded(reply.Record)
		c.addClaim(ctx, cl, nil)
		return result{err: &RecordedError{reply.Record}}
	default:
		cl.signals.put(acquireNow)
	}
	c.addClaim(ctx, cl, w)
	return w.wait(ctx, c)
}

// wait waits in the queue. A call whose wait has ended, or was none, may have to wait for the store's
// answer that the lock is busy. Without an answer the error is not ErrBusy: the store was out of reach.
func (w *waiter) wait(ctx context.Context, c *cohort) result {
	w.waited.Queued = w.Wait > 0
	var timeout <-chan time.Time
	left, ends := w.left()
	asks := w.Wait == 0
	if asks {
		left = w.begun.Add(w.table.Calls.Timeout).Until()
	}
	if ends {
		if w.timer == nil {
			w.timer = time.NewTimer(left)
		} else {
			w.timer.Reset(left)
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

// left is for how long the call may still wait, if that ends at all.
func (w *waiter) left() (left time.Duration, ends bool) {
	if w.Wait > clock.Forever/2 {
		return 0, false
	}
	return w.Since.Add(w.Wait).Until(), true
}

// leave takes a caller that waits no more out of the queue. A grant that it was given meanwhile is its
// result. asked says that it asked the store, and got no answer in time.
func (w *waiter) leave(ctx context.Context, c *cohort, asked bool) result {
	got, given := c.leave(w)
	if given && got.err == nil {
		return got
	}
	w.noteBusy()
	switch {
	case ctx.Err() != nil:
		return result{err: ErrEnded}
	case task.IsClosed(w.stop):
		return result{err: ErrClosed}
	case given:
		return got
	case asked, !w.waited.Busy:
		// The lock is not known to be busy: the claim for this call is unanswered.
		return result{err: &retry.Error{Op: acquireOp, Key: w.Label.Key, Err: retry.ErrNoAnswer}}
	}
	return result{err: ErrBusy}
}

// failure is the caller's error for an acquire that was not answered, or refused.
func (w *waiter) failure(ctx context.Context, call *acquireCall, err error) error {
	var refused *guardstore.RefusedError
	switch {
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case errors.As(err, &refused), ctx.Err() == nil:
		return call.Failure(err)
	}
	return ErrEnded
}
