package cohort

import (
	"context"
	"errors"
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
	forgetOp  = "forget"
)

// lastWait bounds a release that is sent when no goroutine can be started for it any more.
const lastWait = 50 * time.Millisecond

// Patience is for how long a caller waits for an answer: no longer than Most, and for Grace after
// its context ended. With a Most of 0 it does not wait.
type Patience struct{ Most, Grace time.Duration }

// Hold is a grant as one caller has it, and the fence under which it does. Its methods may be called
// from many goroutines, but Watch, Unused and Release once each, in this order.
type Hold struct {
	Label    retry.Label
	Metadata string // of the caller; the claim of the grant may have been made for another caller
	Fence    uint64
	Grant    *grant
	MinHold  time.Duration       // for how long the key stays taken after its work, see Watch
	Outcome  *guardstore.Outcome // what Release writes of work with a record; nil = it ended, nobody knows how

	cohort         *cohort
	used           bool // something ran under it
	aboutToRelease bool // see AboutToRelease; guarded by Table.mu
}

// Shared says whether other callers may have the grant at the same time.
func (h *Hold) Shared() bool { return h.cohort.room.callers > 1 }

// Owner is the token that holds the key in the store.
func (h *Hold) Owner() string { return h.Grant.Claim.Owner }

// Earlier returns the fence of the work that began before and never finished, or 0. recorded is false if the grant
// has no record.
func (h *Hold) Earlier() (fence uint64, recorded bool) {
	return h.Grant.Earlier, h.Grant.Claim.Once != nil
}

// Limit is how many holders the grant tolerates.
func (h *Hold) Limit() guardstore.Limit { return h.Grant.Claim.Limit }

// Waiting is how many callers of this process wait for the key as this hold has it.
func (h *Hold) Waiting() int {
	t := h.cohort.table
	t.mu.Lock()
	defer t.mu.Unlock()
	return h.cohort.queue.Len()
}

// Watch begins to renew a hold, and to listen for its revocation. It does not wait for either.
func (h *Hold) Watch(holder watchdog.Holder, maxHold, minHold time.Duration) {
	t, g := h.cohort.table, h.Grant
	h.used, h.MinHold = true, minHold
	t.watchdog.Watch(&g.Grant, holder, maxHold, h.Metadata)
	t.notifier.begin()
	if t.revocations.has(g.Claim.Owner) {
		t.Tasks.Go(func() { t.checkRevoked(g) }) // the message was faster than the grant
	}
}

// Unwatch is for a hold whose work has ended. It returns the reason if the hold had ended already.
func (h *Hold) Unwatch(holder watchdog.Holder) (cause error) {
	return h.cohort.table.watchdog.Drop(&h.Grant.Grant, holder)
}

// Err looks at the clock. It returns the reason if the hold has ended.
func (h *Hold) Err() error { return h.cohort.table.watchdog.Check(&h.Grant.Grant) }

// Deadline is until when the hold is certain.
func (h *Hold) Deadline() clock.Instant { return h.cohort.table.watchdog.Deadline(&h.Grant.Grant) }

// End ends the hold, and every hold that shares its grant.
func (h *Hold) End(cause error) { h.cohort.table.watchdog.End(&h.Grant.Grant, cause) }

// EndAt is MaxHold for a hold that is watched already. One that has ended stays so.
func (h *Hold) EndAt(until clock.Instant) { h.cohort.table.watchdog.Limit(&h.Grant.Grant, until) }

// Unused notes that no work ran: MinHold and the record do not apply.
func (h *Hold) Unused() { h.used, h.MinHold = false, 0 }

// SetDepth sets how many calls are open under the hold. The next Check, or renewal, writes it to the
// store. A grant that several callers have counts as one for all of them.
func (h *Hold) SetDepth(n int) {
	if !h.Shared() {
		h.Grant.SetDepth(n)
	}
}

// Check asks the store whether it knows of the hold, and moves no expiry. If not, the hold is
// ended, and the error is the reason; if there is no answer, it is an *Error with that op.
func (h *Hold) Check(ctx context.Context, op string, p Patience) error {
	t := h.cohort.table
	p.Most = min(p.Most, t.Calls.Timeout)
	reply, err := t.check(ctx, op, h.Label, h.Grant, p)
	if err != nil || reply.Held {
		return err
	}
	cause := watchdog.NotHeld(reply)
	h.End(cause)
	return cause
}

// check asks the store whether it knows of a grant.
func (t *Table) check(ctx context.Context, op string, label retry.Label, g *grant, p Patience) (guardstore.RenewReply, error) {
	call := retry.NewCall(t.Calls, op, label, t.ask, g)
	reply, err := call.RunWithGrace(ctx, t.Abort, call.Begun.Add(p.Most), p.Grace)
	if err != nil {
		return reply, call.Failure(err)
	}
	return reply, nil
}

// ask sends the depth as it is by now, in a renewal that moves no expiry.
func (t *Table) ask(ctx context.Context, g *grant) (guardstore.RenewReply, error) {
	request := t.watchdog.Request(&g.Grant)
	request.TTL = 0
	reply := t.Store.Renew(ctx, []guardstore.Grant{request})[0]
	return reply, reply.Err
}

// Abandon is for a hold that was lost: the callers in the queue claim the key anew. Release removes
// what the store may still have of the hold.
func (h *Hold) Abandon(ctx context.Context) { h.cohort.abandon(ctx, h.Grant, h.Fence) }

// AboutToRelease says that the hold is released in a moment, asynchronously. Callers of this process that
// come before that do not find the key busy: they wait for the release.
func (h *Hold) AboutToRelease() {
	t := h.cohort.table
	t.mu.Lock()
	defer t.mu.Unlock()
	h.aboutToRelease = true
	h.cohort.aboutToRelease++
}

// Release hands the hold over to the next caller in the queue, or releases it in the store, unless other
// callers have the grant, too. The error is ErrNotHeld or ErrRevoked if only the release showed that the
// hold was lost, or an *Error if the store did not answer in time. A release that was not answered is
// repeated asynchronously, until the grant's deadline.
func (h *Hold) Release(ctx context.Context, p Patience) (handedOver bool, err error) {
	if p.Most == 0 {
		h.cohort.table.async(ctx, func(ctx context.Context) { _, _ = h.Release(ctx, Patience{Most: clock.Forever}) })
		return false, nil
	}
	if h.used && h.Shared() {
		err = h.confirm(ctx, p)
	}
	to, waited := h.cohort.passOn(h)
	switch {
	case to != toStore:
		return to == toNext, err
	case err == nil:
		return false, h.sendRelease(ctx, p, waited)
	}
	h.cohort.table.async(ctx, func(ctx context.Context) { _ = h.sendRelease(ctx, Patience{Most: clock.Forever}, waited) })
	if unknown, ok := err.(*retry.Error); ok { //nolint:errorlint // it comes bare
		err = &retry.Error{Op: releaseOp, Key: unknown.Key, Err: unknown.Err} // the caller asked for a release
	}
	return false, err
}

// sendRelease releases a grant in the store. If waited is true, callers wait for that, and the cohort
// goes on then.
func (h *Hold) sendRelease(ctx context.Context, p Patience, waited bool) error {
	t, deadline := h.cohort.table, h.Grant.Deadline()
	if waited {
		defer h.cohort.goOn(ctx)
	}
	r := h.Grant.Release(h.Fence)
	r.MinHold = h.MinHold
	if r.Record = h.Outcome; !h.used {
		r.Record = neverRan(h.Grant.Claim.Once)
	}
	call := t.newRelease(h.Label, r)
	limit := call.Begun.Add(min(p.Most, t.Calls.Timeout))
	reply, err := call.Run(ctx, t.Abort, limit)
	if err != nil {
		reply, err = call.RunOn(ctx, t.Abort, limit, p.Grace, reply, err)
	}
	switch {
	case err != nil:
		failure := call.Failure(err)
		t.repeat(ctx, call, deadline)
		return failure
	case reply.Status == guardstore.ReleaseRevoked:
		return watchdog.ErrRevoked
	case reply.Status == guardstore.ReleaseLost && call.Attempts == 1 && clock.Now() < deadline:
		return watchdog.ErrNotHeld
	}
	return nil
}

// sharedCheck asks the store whether a grant is held, for all callers that want to know at that time.
type sharedCheck struct {
	begun clock.Instant
	done  chan struct{} // closed when there is an answer
	err   error         // nil = it is held; else why not, or an *Error
}

// believed is for how long the store's answer that a grant is held counts for callers that leave it, if
// the window is not shorter.
const believed = 5 * time.Millisecond

// confirm is for a caller that leaves while others hold the grant. It sends no release, whose answer would
// say whether the grant was held to the end. So it asks, unless the store answered a moment ago: callers
// that leave within 5 ms of each other ask once. The error is the reason why the grant is not held any
// more, or an *Error.
func (h *Hold) confirm(ctx context.Context, p Patience) error {
	t, c, g := h.cohort.table, h.cohort, h.Grant
	at, age := clock.Now(), min(believed, c.window())
	t.mu.Lock()
	if g.callers == 1 || !slices.Contains(c.grants, g) || at.Sub(g.Begun) < age {
		t.mu.Unlock()
		return nil // the release will say so, or the loss is known, or the grant is new
	}
	s := g.check
	if s == nil || at.Sub(s.begun) >= age {
		s = &sharedCheck{begun: at, done: make(chan struct{})}
		g.check = s
		ctx := context.WithoutCancel(ctx)
		if !t.Tasks.Go(func() { h.ask(ctx, s) }) {
			s.err = &retry.Error{Op: checkOp, Key: h.Label.Key, Err: ErrClosed}
			close(s.done)
		}
	}
	t.mu.Unlock()
	timer := time.NewTimer(min(p.Most, t.Calls.Timeout))
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	case <-ctx.Done():
		timer.Reset(p.Grace)
		select {
		case <-s.done:
		case <-timer.C:
		}
	}
	if !task.IsClosed(s.done) {
		return &retry.Error{Op: checkOp, Key: h.Label.Key, Err: retry.ErrNoAnswer}
	}
	return s.err
}

// ask runs a shared check, and ends the grant if the store does not have it any more.
func (h *Hold) ask(ctx context.Context, s *sharedCheck) {
	defer close(s.done)
	s.err = h.Check(ctx, checkOp, Patience{Most: clock.Forever})
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

type releaseCall = retry.Call[guardstore.Release, guardstore.ReleaseReply]

// newRelease makes the call that releases what an owner has.
func (t *Table) newRelease(label retry.Label, r guardstore.Release) *releaseCall {
	call := retry.NewCall(t.Calls, releaseOp, label, t.release, r)
	call.RepeatRefused = true
	if t.notifier.queues.Load() { // else no claim was ever queued, and no late grant can come
		call.After = t.finished
	}
	return call
}

// repeat repeats a release that was not done, asynchronously, until the deadline.
func (t *Table) repeat(ctx context.Context, call *releaseCall, deadline clock.Instant) {
	ctx = context.WithoutCancel(ctx)
	if !t.Tasks.Go(func() { _, _ = call.Run(ctx, t.Abort, deadline) }) && call.Attempts == 0 {
		_, _ = call.Run(ctx, t.Abort, clock.Now().Add(lastWait)) // closed: this is the one try
	}
}

// async runs a function on a goroutine. Once the Table is closed, it runs it on the caller's.
func (t *Table) async(ctx context.Context, run func(ctx context.Context)) {
	ctx = context.WithoutCancel(ctx)
	if !t.Tasks.Go(func() { run(ctx) }) {
		run(ctx)
	}
}

// Probe sends a command that changes nothing, by the same way as those of locks: it releases a claim that
// never was. The error is ErrClosed once stop is closed, or an *Error.
func (t *Table) Probe(ctx context.Context, op string, label retry.Label, ttl time.Duration, stop <-chan struct{}, most time.Duration) error {
	r := guardstore.Release{Key: label.Key, Owner: t.newOwner(guardstore.Exclusive), TTL: ttl}
	call := retry.NewCall(t.Calls, op, label, t.release, r)
	_, err := call.Run(ctx, stop, call.Begun.Add(most))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, retry.ErrStopped):
		return ErrClosed
	}
	return call.Failure(err)
}

// Forget deletes the record that a key has now. The command names that record: executed late, or once more, it does
// not delete a newer one. The error is ErrClosed once stop is closed, or an *Error.
func (t *Table) Forget(ctx context.Context, s guardstore.Recorder, label retry.Label, stop <-chan struct{}) (guardstore.ForgetStatus, error) {
	look := retry.NewCall(t.Calls, forgetOp, label, s.Recorded, label.Key)
	id, err := look.Run(ctx, stop, look.Begun.Add(t.Calls.Timeout))
	switch {
	case errors.Is(err, retry.ErrStopped):
		return 0, ErrClosed
	case err != nil:
		return 0, look.Failure(err)
	case id.State == guardstore.RecordNone:
		return guardstore.ForgetNone, nil
	}
	call := retry.NewCall(t.Calls, forgetOp, label, s.Forget, guardstore.Forget{Key: label.Key, RecordID: id})
	status, err := call.Run(ctx, stop, call.Begun.Add(t.Calls.Timeout))
	switch {
	case errors.Is(err, retry.ErrStopped):
		return 0, ErrClosed
	case err != nil:
		return 0, call.Failure(err)
	case status == guardstore.ForgetNone && call.InDoubt:
		return guardstore.ForgetDone, nil // by an attempt that was not answered
	}
	return status, nil
}
