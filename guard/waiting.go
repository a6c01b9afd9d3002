package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Between two tries a waiter rests a random while, growing from the first to the second
// of these, but never much beyond the holder's remaining ttl.
const (
	firstRest   = 5 * time.Millisecond
	longestRest = 250 * time.Millisecond

	mostSlow = 2 // grants that took longer than their ttl, before giving up
)

var errSlow = errors.New("answers take longer than the ttl")

// wait is what a call went through to get, or not to get, its lock.
type wait struct {
	queued bool
	holder string
}

// claim takes a key that ctx does not hold, waiting for it as the call allows. It
// returns a tenure, and when the command that confirmed it was sent.
func (g *Guard) claim(ctx context.Context, c call) (*tenure, instant, wait, error) {
	w := &waiter{g: g, call: c, begun: now(), stop: g.draining}
	nested := g.underLease(ctx)
	if nested {
		w.stop = g.closing
	}
	if err := g.enter(nested); err != nil {
		return nil, 0, wait{}, err
	}
	if ctx.Err() != nil {
		g.leave()
		return nil, 0, wait{}, ended(ctx)
	}
	t, sent, err := w.run(ctx)
	if err != nil {
		g.leave()
	}
	return t, sent, w.wait(), err
}

// waiter is one caller that wants a key. It asks the store again and again until the
// key is free or the wait is over.
type waiter struct {
	g     *Guard
	call  call
	begun instant
	stop  <-chan struct{}

	claim Claim
	busy  *ClaimReply // the latest busy answer
	bury  bool        // an acquire of claim.Owner may still take effect
}

func (w *waiter) wait() wait {
	if w.busy == nil {
		return wait{}
	}
	return wait{queued: w.call.wait > 0, holder: w.busy.Holder}
}

// run asks until the store says held or the wait is over.
func (w *waiter) run(ctx context.Context) (*tenure, instant, error) {
	w.newClaim()
	for tries, slow := 0, 0; ; tries++ {
		t := w.ask(ctx)
		reply, err := t.run(ctx, w.stop, w.limit(t.begun))
		w.bury = w.bury || t.unanswered
		if err != nil {
			w.settle(ctx, t.inFlight, false)
			return nil, 0, w.failure(ctx, t, err)
		}
		switch reply.Status {
		case ClaimHeld:
			deadline := trustedUntil(t.sent, w.claim.TTL)
			if err = w.usable(ctx, deadline, slow); err != nil {
				w.settle(ctx, nil, true)
				return nil, 0, err
			}
			if now() < deadline {
				return w.tenure(reply, deadline), t.sent, nil
			}
			slow++ // asking again gives the hold its full ttl again
		case ClaimWithdrawn:
			w.newClaim()
		default:
			w.busy = &reply
			if err = w.rest(ctx, tries); err != nil {
				w.settle(ctx, nil, false)
				return nil, 0, err
			}
		}
	}
}

// usable says why a lock that was granted is of no use to the caller.
func (w *waiter) usable(ctx context.Context, deadline instant, slow int) error {
	switch {
	case ctx.Err() != nil:
		return w.over(ctx)
	case now() >= deadline && slow == mostSlow:
		return &StoreError{Op: "acquire", Key: w.claim.Key, Err: errSlow}
	}
	return nil
}

func (w *waiter) newClaim() {
	w.claim = Claim{
		Key: w.call.lock.Key, Owner: w.g.newOwner(),
		TTL: w.call.ttl, Metadata: w.call.metadata,
	}
	w.bury = false
}

func (w *waiter) ask(ctx context.Context) *trip[ClaimReply] {
	claim := w.claim
	return newTrip(ctx, w.g, "acquire", w.call.lock, func(ctx context.Context, again bool) (ClaimReply, error) {
		claim := claim
		claim.Again = again
		return w.g.store.Acquire(ctx, claim)
	})
}

func (w *waiter) tenure(reply ClaimReply, deadline instant) *tenure {
	t := &tenure{
		claim: w.claim, fence: reply.Fence, bury: w.bury,
		fixed: w.call.fixed, deadline: deadline, index: -1,
	}
	if w.call.maxHold > 0 {
		t.holdUntil = now().add(w.call.maxHold)
	}
	return t
}

// limit is until when to wait for an answer: once the store said busy, the end of the
// wait counts, too.
func (w *waiter) limit(begun instant) instant {
	limit := begun.add(w.g.storeTimeout)
	if w.busy != nil {
		limit = min(limit, w.waitEnd())
	}
	return limit
}

func (w *waiter) waitEnd() instant {
	return w.begun.add(min(w.call.wait, aeon))
}

// rest pauses after a busy answer. It returns an error when the wait is over.
func (w *waiter) rest(ctx context.Context, tries int) error {
	left := w.waitEnd().until()
	if left <= 0 {
		return w.busyError(nil)
	}
	longest := min(firstRest<<min(tries, 16), longestRest, max(w.busy.Remaining, 0)+firstRest)
	pause := longest/2 + rand.N(longest/2) //nolint:gosec // jitter
	timer := time.NewTimer(min(pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		if pause >= left {
			return w.busyError(nil)
		}
		return nil
	case <-ctx.Done():
		return w.over(ctx)
	case <-w.stop:
		return ErrClosed
	}
}

// failure is the caller's error for an acquire that was not answered, or refused.
func (w *waiter) failure(ctx context.Context, t *trip[ClaimReply], err error) error {
	var refused *RefusedError
	switch {
	case errors.Is(err, errStop):
		return ErrClosed
	case errors.As(err, &refused):
		return t.storeError(err)
	case ctx.Err() != nil:
		return w.over(ctx)
	case w.busy != nil && now() >= w.waitEnd():
		return w.busyError(nil)
	}
	return t.storeError(err)
}

// over is the caller's error when ctx ended.
func (w *waiter) over(ctx context.Context) error {
	if w.busy == nil {
		return ended(ctx)
	}
	return w.busyError(ended(ctx))
}

func (w *waiter) busyError(cause error) *BusyError {
	e := &BusyError{
		Name: w.call.lock.Name, Key: w.call.lock.Key, Holder: w.busy.Holder, Err: cause,
		RetryAfter: time.Second + rand.N(time.Second), //nolint:gosec // jitter
	}
	if w.call.wait > 0 {
		e.Waited = now().sub(w.begun)
	}
	return e
}

// settle sees to it, behind the caller, that nothing stays of a claim that is given
// up: what it took, or may yet take, is given back. inFlight is an attempt that was not
// waited for; held says that the claim was granted.
func (w *waiter) settle(ctx context.Context, inFlight <-chan answer[ClaimReply], held bool) {
	if inFlight == nil && !held && !w.bury {
		return
	}
	g, lock, claim, bury := w.g, w.call.lock, w.claim, w.bury
	ctx = context.WithoutCancel(ctx)
	settle := func() {
		if inFlight != nil {
			a, answered := g.lastAnswer(inFlight)
			bury = bury || !answered || a.err != nil
			held = answered && a.err == nil && a.reply.Status == ClaimHeld
		}
		if held || bury {
			release := g.newRelease(ctx, lock, claim, 0, bury)
			_, _ = release.run(ctx, g.abort, now().add(claim.TTL+g.storeTimeout))
		}
	}
	if !g.background.spawn(settle) {
		settle()
	}
}

// lastAnswer waits a while for the answer to an attempt whose caller left.
func (g *Guard) lastAnswer(inFlight <-chan answer[ClaimReply]) (a answer[ClaimReply], answered bool) {
	timer := time.NewTimer(g.storeTimeout / 2)
	defer timer.Stop()
	select {
	case a = <-inFlight:
		return a, true
	case <-timer.C:
	case <-g.abort:
	}
	return a, false
}

// newRelease begins to give back a claim.
func (g *Guard) newRelease(ctx context.Context, lock Lock, claim Claim, fence uint64, bury bool) *trip[ReleaseReply] {
	return newTrip(ctx, g, "release", lock, func(ctx context.Context, again bool) (ReleaseReply, error) {
		return g.store.Release(ctx, Release{
			Key: claim.Key, Owner: claim.Owner, Fence: fence, TTL: claim.TTL, Bury: bury, Again: again,
		})
	})
}
