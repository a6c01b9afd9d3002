package guard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

const (
	firstRest = 5 * time.Millisecond
	mostSlow  = 2 // grants that took longer than their ttl, before giving up
)

var errSlow = errors.New("answers take longer than the ttl")

// wait is what a call went through to get, or not to get, its lock.
type wait struct {
	queued bool
	local  bool
	holder string
	limit  int // the strictest of those inside, if they tolerate others
}

// granted is a grant, and the fence and contender under which a call has it.
type granted struct {
	grant     *watchdog.Grant
	fence     uint64
	contender *contender
}

// claim takes a key that ctx does not hold, waiting for it as the call allows.
func (g *Guard) claim(ctx context.Context, c call, begun clock.Instant) (granted, wait, error) {
	w := &waiter{g: g, call: c, begun: begun, since: cmp.Or(c.since, begun), stop: g.draining}
	nested := g.underLease(ctx)
	if nested {
		w.stop = g.closing
	}
	if err := g.enter(nested); err != nil {
		return granted{}, wait{}, err
	}
	g.presence.touch(begun) //nolint:contextcheck // the name outlives the caller
	got, err := w.run(ctx)
	if err != nil {
		g.leave()
	}
	return got, w.wait, err
}

// waiter is one call that wants a key.
type waiter struct {
	g     *Guard
	call  call
	begun clock.Instant
	since clock.Instant // Wait counts from here
	stop  <-chan struct{}
	busy  bool          // somebody holds the key
	rest  clock.Instant // nobody does any more, but its MinHold is over only then; 0 = somebody does
	wait  wait
}

func (w *waiter) run(ctx context.Context) (granted, error) {
	for {
		if ctx.Err() != nil {
			return granted{}, w.over(ctx)
		}
		c, got := w.enter(ctx)
		if got.err != nil {
			return granted{}, got.err
		}
		w.wait.local = got.local
		have := granted{got.grant, got.fence, c}
		switch {
		case ctx.Err() != nil:
			w.g.giveAway(ctx, have, w.call.lock)
			return granted{}, w.over(ctx)
		case clock.Now() < got.grant.Deadline():
			return have, nil
		}
		// It came too late to be of use: a busy machine, not a busy lock.
		w.g.giveAway(ctx, have, w.call.lock)
	}
}

// enter joins those of this instance that want the key, and waits for what it is given.
func (w *waiter) enter(ctx context.Context) (*contender, award) {
	in := w.g.contenders.newCaller(w.call, w.stop)
	defer w.g.contenders.free(in)
	var down error
	if w.call.failOpen {
		down = w.g.outage(ctx, w.call.lock.Key)
	}
	c, first, inLine := w.g.join(in, down)
	switch {
	case first:
		return c, w.told(w.ask(ctx, c, in, down))
	case !inLine:
		w.sawBusy(in.holder, in.rest, in.limit)
		return c, award{err: w.busyError(nil)}
	}
	w.wait.queued = w.call.wait > 0
	if in.busy && w.call.wait > 0 {
		w.sawBusy(in.holder, in.rest, in.limit)
	}
	return c, w.told(w.await(ctx, c, in))
}

// told makes the caller's error of the word that the lock is busy.
func (w *waiter) told(a award) award {
	if a.err == errBusy { //nolint:errorlint // it is never wrapped
		w.sawBusy(a.holder, a.rest, a.limit)
		a.err = w.busyError(nil)
	}
	return a
}

func (w *waiter) sawBusy(holder string, rest clock.Instant, limit int) {
	w.busy, w.rest = true, rest
	w.wait.queued, w.wait.holder, w.wait.limit = w.call.wait > 0, holder, limit
}

// ask sends the claim of the first caller, unless it is known that this is of no use. If it
// has to wait, a pursuit goes on for it.
func (w *waiter) ask(ctx context.Context, c *contender, in *caller, down error) award {
	claim := w.g.newClaim(w.call)
	if down != nil {
		c.refuse(down)
		w.pursueForOthers(ctx, c, newPursuit(c, w.call.lock, claim), nil)
		return award{err: down}
	}
	if claim.Queue = w.call.wait > 0; claim.Queue {
		most, ends := w.left()
		if !ends {
			most = clock.Forever
		}
		w.g.grants.prepare(ctx, w.stop, most)
	}
	strays := w.g.grants.strays.Load()
	t := w.g.newAcquire(w.call.lock, claim)
	reply, err := t.Run(ctx, w.stop, t.Begun.Add(w.g.storeTimeout))
	if err == nil && reply.Status == guardstore.ClaimHeld {
		grant := watchdog.NewGrant(claim, reply, t.Sent, t.InDoubt, c.id.fixed)
		c.took(grant)
		return award{grant: grant, fence: reply.Fence}
	}
	p := newPursuit(c, w.call.lock, claim)
	p.strays, p.bury = strays, t.InDoubt
	switch {
	case err != nil:
		failure := w.failure(ctx, t, err)
		if errors.Is(failure, ErrStore) {
			c.refuse(failure)
		}
		w.pursueForOthers(ctx, c, p, t.InFlight)
		return award{err: failure}
	case reply.Status == guardstore.ClaimBusy:
		p.queued(reply)
		w.sawBusy(reply.Holder, restOf(reply), reply.Limit)
		c.sawBusy(reply)
		if w.call.wait == 0 {
			w.pursueForOthers(ctx, c, p, nil)
			return award{err: w.busyError(nil)}
		}
	}
	if reply.Status != guardstore.ClaimBusy {
		p.messages.put(askMessage)
	}
	return w.pursue(ctx, c, p, in)
}

// pursue waits as the first in line, and asks by itself: mostly there is nobody else.
func (w *waiter) pursue(ctx context.Context, c *contender, p *pursuit, in *caller) award {
	c.pursue(p, in)
	until := ctx
	if left, ends := w.left(); ends {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	if p.run(until, w.stop) {
		return <-in.awards
	}
	if ctx.Err() == nil && !task.IsClosed(w.stop) && c.askLast(in) {
		p.bury, p.inFlight = p.bury || p.inFlight != nil, nil
		if over, _ := p.ask(ctx, w.stop); over {
			return <-in.awards
		}
	}
	got := w.leave(ctx, c, in, false)
	p.leave(ctx)
	return got
}

// pursueForOthers leaves the claim to those who came into line behind its caller, or
// gives it up.
func (w *waiter) pursueForOthers(ctx context.Context, c *contender, p *pursuit, inFlight <-chan retry.Answer[guardstore.ClaimReply]) {
	unanswered := p.bury
	p.bury = p.bury || inFlight != nil // a pursuit does not wait for that attempt
	if c.pursue(p, nil) {
		p.start(ctx, true)
		return
	}
	w.g.settle(ctx, w.call.lock, p.claim, inFlight, p.claim.Ticket > 0, unanswered)
}

// await waits in line. A call whose wait is over, or was none, may have to wait for the
// store's word that the lock is busy: if there is none, it was not busy but out of reach.
func (w *waiter) await(ctx context.Context, c *contender, in *caller) award {
	var timer *time.Timer
	var timeout <-chan time.Time
	left, ends := w.left()
	asks := w.call.wait == 0
	if asks {
		left = w.begun.Add(w.g.storeTimeout).Until()
	}
	if ends {
		timer = time.NewTimer(left)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		select {
		case got := <-in.awards:
			return got
		case <-timeout:
			if !asks && c.askLast(in) {
				asks = true
				timer.Reset(w.g.storeTimeout)
				continue
			}
		case <-ctx.Done():
		}
		return w.leave(ctx, c, in, asks)
	}
}

// left is for how long the call may still wait, if that ends at all.
func (w *waiter) left() (left time.Duration, ends bool) {
	if w.call.wait > clock.Forever/2 {
		return 0, false
	}
	return w.since.Add(w.call.wait).Until(), true
}

// leave takes a caller out of line that waits no more. asked says that the store gave it no
// word in time.
func (w *waiter) leave(ctx context.Context, c *contender, in *caller, asked bool) award {
	got, given := c.leave(in)
	switch {
	case given && got.err == nil:
		w.g.giveAway(ctx, granted{got.grant, got.fence, c}, w.call.lock)
	case given:
		got = w.told(got)
	case in.busy:
		w.sawBusy(in.holder, in.rest, in.limit)
	}
	switch {
	case ctx.Err() != nil:
		return award{err: w.over(ctx)}
	case task.IsClosed(w.stop):
		return award{err: ErrClosed}
	case given && got.err != nil:
		return award{err: got.err}
	case asked && !given, !w.busy && !given:
		// Nobody says that the lock is busy: the claim that stands for this call is unanswered.
		return award{err: &StoreError{Op: "acquire", Key: w.call.lock.Key, Err: retry.ErrNoAnswer}}
	}
	return award{err: w.busyError(nil)}
}

// failure is the caller's error for an acquire that was not answered, or refused.
func (w *waiter) failure(ctx context.Context, t *retry.Call[guardstore.ClaimReply], err error) error {
	var refused *guardstore.RefusedError
	switch {
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	case errors.As(err, &refused), ctx.Err() == nil:
		return storeError(t.Failure(err))
	}
	return w.over(ctx)
}

// over is the caller's error when ctx ended.
func (w *waiter) over(ctx context.Context) error {
	if !w.busy {
		return ended(ctx)
	}
	return w.busyError(ended(ctx))
}

func (w *waiter) busyError(cause error) *BusyError {
	e := &BusyError{
		Name: w.call.lock.Name, Key: w.call.lock.Key, Holder: w.wait.holder, Limit: w.wait.limit, Err: cause,
		RetryAfter: time.Second + rand.N(time.Second), //nolint:gosec // jitter
	}
	if w.call.wait > 0 {
		e.Waited = clock.Now().Sub(w.since)
	}
	if left := w.rest.Until(); w.rest > 0 && left > 0 {
		e.Done, e.RetryAfter = true, max(left, time.Second)
	}
	return e
}

func (g *Guard) newClaim(c call) guardstore.Claim {
	return guardstore.Claim{Key: c.lock.Key, Owner: g.newOwner(c.limit), TTL: c.ttl, Metadata: c.metadata, Limit: c.limit}
}

func (g *Guard) newAcquire(lock Lock, claim guardstore.Claim) *retry.Call[guardstore.ClaimReply] {
	return newCall(g, "acquire", lock, &g.claimed, func(ctx, leave context.Context, _ bool, done func(guardstore.ClaimReply, error)) {
		g.carrier.StartAcquire(ctx, leave, claim, done)
	})
}
