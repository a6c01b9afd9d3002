package cohort

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

const (
	acquireOp = "acquire"
	checkOp   = "check"
	releaseOp = "release"
)

// lastWait bounds a release that is sent when no goroutine can be started for it any more.
const lastWait = 50 * time.Millisecond

// keepExpiry is the TTL of a renewal that confirms a hold, and moves no expiry.
const keepExpiry = 0

// Patience is for how long a caller waits for an answer: no longer than Most, and for Grace after
// its context ended.
type Patience struct{ Most, Grace time.Duration }

// Hold is a grant as one caller has it, and the fence under which it does. Its methods may be called
// from many goroutines, except Watch, Unused, PassOn and Release: call each once, in this order.
type Hold struct {
	Label    retry.Label
	Metadata string // of the caller; the claim of the grant may have been made for another caller
	Fence    uint64
	MinHold  time.Duration       // for how long the key stays taken after its work, see Watch
	Outcome  *guardstore.Outcome // what Release writes of work with a record; nil = how the work ended is not known

	*grant // with the methods of a watchdog.Grant
	cohort *cohort
	used   bool // something ran under it

	transferred bool // PassOn was called, with these results
	to          recipient
	waits       bool
}

// Waiting returns how many callers of this process wait for the key as this hold has it.
func (h *Hold) Waiting() int {
	t := h.cohort.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return h.cohort.queue.Len()
}

// Watch begins to renew a hold, and to listen for its revocation. It does not wait for either.
func (h *Hold) Watch(holder watchdog.Holder, maxHold, minHold time.Duration) {
	h.used, h.MinHold = true, minHold
	h.grant.Watch(holder, maxHold, h.Metadata)
	h.cohort.table.notifier.begin()
}

// Unused notes that no work ran: MinHold and the record do not apply.
func (h *Hold) Unused() { h.used, h.MinHold = false, 0 }

// Check asks the store whether it knows of the hold, and moves no expiry. If not, the hold is
// ended, and the error is the reason; if there is no answer, it is a *retry.Error with that op.
func (h *Hold) Check(ctx context.Context, op string, p Patience) error {
	t := h.cohort.table
	p.Most = min(p.Most, t.Calls.Timeout)
	reply, err := t.check(ctx, op, h.Label, h.grant, p)
	if err != nil || reply.Held {
		return err
	}
	cause := watchdog.NotHeld(reply)
	h.End(cause)
	return cause
}

// check asks the store whether it knows of a grant.
func (t *Table) check(ctx context.Context, op string, label retry.Label, g *grant, p Patience) (guardstore.RenewReply, error) {
	c := retry.Call{Op: op, Label: label, For: p.Most, Grace: p.Grace, Stop: t.Abort}
	a, err := retry.Do(ctx, t.Calls, c, t.confirm, g)
	return a.Reply, err
}

// confirm sends the depth as it is by now, in a renewal that moves no expiry.
func (t *Table) confirm(ctx context.Context, g *grant) (guardstore.RenewReply, error) {
	request := g.Request()
	request.TTL = keepExpiry
	reply := t.Store.Renew(ctx, []guardstore.Grant{request})[0]
	return reply, reply.Err
}

// Abandon is for a hold that was lost: the callers in the queue claim the key anew. Release removes
// what the store may still have of the hold.
func (h *Hold) Abandon(ctx context.Context) {
	h.cohort.change(ctx, func() {
		if slices.Contains(h.cohort.grants, h.grant) {
			h.cohort.removeGrant(h.grant, h.Fence)
		}
	})
}

// PassOn hands the hold over to the next caller in the queue, before an asynchronous Release. If there is
// none, the callers of this process that come next wait for the Release: they do not find the key busy.
func (h *Hold) PassOn() {
	h.to, h.waits = h.cohort.transfer(h, true)
	h.transferred = true
}

// Release hands the hold over to the next caller in the queue, or releases it in the store, unless other
// callers have the grant, too. The error is ErrNotHeld or ErrRevoked if only the release showed that the
// hold was lost, or a *retry.Error if the store did not answer in time. A release that was not answered is
// repeated asynchronously, until the grant's deadline.
func (h *Hold) Release(ctx context.Context, p Patience) (handedOver bool, err error) {
	if h.used && h.cohort.room.callers > 1 {
		err = h.confirm(ctx, p)
	}
	if !h.transferred {
		h.to, h.waits = h.cohort.transfer(h, false)
	}
	switch {
	case h.to != toStore:
	case err == nil:
		err = h.sendRelease(ctx, p)
	default:
		h.cohort.table.async(ctx, func(ctx context.Context) { _ = h.sendRelease(ctx, p) })
		if unknown, ok := err.(*retry.Error); ok { //nolint:errorlint // it comes bare
			err = &retry.Error{Op: releaseOp, Key: unknown.Key, Err: unknown.Err} // the caller asked for a release
		}
	}
	return h.to == toNext, err
}

// sendRelease releases a grant in the store. If callers wait for that, the cohort claims the key for them then.
func (h *Hold) sendRelease(ctx context.Context, p Patience) error {
	t, deadline := h.cohort.table, h.Deadline()
	if h.waits {
		defer h.cohort.change(ctx, func() { h.cohort.releasing-- }) // claims of other processes are in front by then
	}
	r := guardstore.Release{
		Key: h.Claim.Key, Owner: h.Claim.Owner, Fence: h.Fence, TTL: h.Claim.TTL, Tombstone: h.Tombstone,
		Limit: h.Claim.Limit, MinHold: h.MinHold, Record: h.Outcome,
	}
	if !h.used {
		r.Record = neverRan(h.Claim.Once)
	}
	c := retry.Call{
		Op: releaseOp, Label: h.Label, For: min(p.Most, t.Calls.Timeout), Grace: p.Grace, Stop: t.Abort, RepeatRefused: true,
	}
	a, err := retry.Do(ctx, t.Calls, c, t.Store.Release, r)
	switch {
	case err != nil:
		t.repeat(ctx, c, r, deadline, a.Attempts > 0)
		return err
	case a.Reply.Status == guardstore.ReleaseRevoked:
		return watchdog.ErrRevoked
	case a.Reply.Status == guardstore.ReleaseLost && a.Attempts == 1 && clock.Now() < deadline:
		return watchdog.ErrNotHeld
	}
	return nil
}

// repeat repeats a release that was not answered, asynchronously, until the deadline. If the Table is closed and the
// release was never sent, it sends it once.
func (t *Table) repeat(ctx context.Context, c retry.Call, r guardstore.Release, deadline clock.Instant, sent bool) {
	ctx, c.Grace = context.WithoutCancel(ctx), 0
	send := func(most time.Duration) {
		c.For = most
		_, _ = retry.Do(ctx, t.Calls, c, t.Store.Release, r)
	}
	if !t.Tasks.Go(func() { send(deadline.Until()) }) && !sent {
		send(lastWait)
	}
}

// sharedCheck asks the store whether a grant is held, for all callers that want to know at that time.
type sharedCheck struct {
	begun clock.Instant
	done  chan struct{} // closed when there is an answer
	err   error         // nil = it is held; else why not, or a *retry.Error
}

// believed is for how long the store's answer that a grant is held counts for callers that leave it, if
// the window is not shorter.
const believed = 5 * time.Millisecond

// confirm is for a caller that leaves while others hold the grant. It sends no release, whose answer would
// say whether the grant was held to the end. So it asks, unless the store answered a moment ago: callers
// that leave within 5 ms of each other ask once. The error is the reason why the grant is not held any
// more, or a *retry.Error.
func (h *Hold) confirm(ctx context.Context, p Patience) error {
	t, c, g := h.cohort.table, h.cohort, h.grant
	at, age := clock.Now(), min(believed, c.window())
	t.mu.Lock()
	if g.callers == 1 || !slices.Contains(c.grants, g) || at.Sub(g.Begun) < age {
		t.mu.Unlock()
		return nil // the release will say so, or the loss is known, or the grant is new
	}
	s := g.check
	first := s == nil || at.Sub(s.begun) >= age
	if first {
		s = &sharedCheck{begun: at, done: make(chan struct{})}
		g.check = s
	}
	t.mu.Unlock()
	if first {
		t.async(ctx, func(ctx context.Context) {
			defer close(s.done)
			s.err = h.Check(ctx, checkOp, Patience{Most: t.Calls.Timeout})
		})
	}
	retry.Pause(ctx, s.done, min(p.Most, t.Calls.Timeout))
	if ctx.Err() != nil {
		retry.Pause(context.WithoutCancel(ctx), s.done, p.Grace)
	}
	if !task.IsClosed(s.done) {
		return &retry.Error{Op: checkOp, Key: h.Label.Key, Err: retry.ErrNoAnswer}
	}
	return s.err
}

// neverRan is the outcome of a claim under which no work ran: the release removes the beginning that the
// claim wrote.
func neverRan(o *guardstore.Once) *guardstore.Outcome {
	if o == nil {
		return nil
	}
	undo := &guardstore.Outcome{Once: *o}
	undo.AtMostOnce = true // so it is removed also if the claim does not hold the key any more
	return undo
}

// async runs a function on a goroutine. Once the Table is closed, it runs it on the caller's.
func (t *Table) async(ctx context.Context, run func(ctx context.Context)) {
	ctx = context.WithoutCancel(ctx)
	if !t.Tasks.Go(func() { run(ctx) }) {
		run(ctx)
	}
}
