package guard

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// newRelease begins to give back a claim, with the next one if there is one. Only the
// first attempt carries that: once its outcome is unknown, the next claim asks for
// itself.
func (g *Guard) newRelease(lock Lock, r guardstore.Release, next *pursuit) *retry.Call[guardstore.ReleaseReply] {
	return newCall(g, "release", lock, &g.released, func(ctx, leave context.Context, again bool, done func(guardstore.ReleaseReply, error)) {
		sent := r
		if next != nil && !again {
			sent.Next = &guardstore.NextClaim{Owner: next.claim.Owner, Metadata: next.claim.Metadata}
		}
		g.carrier.StartRelease(ctx, leave, sent, g.grants.whenOver(lock, r, done))
	})
}

// handOn passes a grant whose work ended in good order to the next in line, or gives it
// back. It returns the trip of the release and what came of it, or nil if none was
// needed.
func (g *Guard) handOn(ctx context.Context, have granted, lock Lock, most, grace time.Duration) (t *retry.Call[guardstore.ReleaseReply], reply guardstore.ReleaseReply, err error) {
	passed, next := have.contender.pass(have.grant, have.fence)
	if passed {
		return nil, guardstore.ReleaseReply{}, nil
	}
	if next != nil {
		g.grants.register(next)
	}
	t = g.newRelease(lock, have.grant.Release(have.fence), next)
	reply, err = t.RunWithGrace(ctx, t.Begun.Add(min(most, g.storeTimeout)), grace)
	if next != nil {
		g.resume(ctx, next, t, reply, err)
	}
	return t, reply, err
}

// resume goes on for those in line, with what the release of the grant before said of
// their claim.
func (g *Guard) resume(ctx context.Context, p *pursuit, t *retry.Call[guardstore.ReleaseReply], reply guardstore.ReleaseReply, err error) {
	switch {
	case err == nil && reply.Next.Status == guardstore.ClaimHeld:
		grant := watchdog.NewGrant(p.claim, reply.Next, t.Sent, false, p.c.id.fixed)
		g.grants.unregister(p.claim.Owner)
		if !p.c.award(p, grant) {
			p.giveUp(ctx, true)
		}
	case err == nil && reply.Next.Status == guardstore.ClaimBusy:
		p.queued(reply.Next)
		if reply.Next.Done {
			p.c.keeps(reply.Next)
		} else {
			p.remaining = clock.Forever // of whoever has it now, nothing is known yet
		}
		p.start(ctx, false)
	default:
		p.bury = err != nil || t.InDoubt
		p.start(ctx, true)
	}
}

// giveAway hands on, behind the caller, a grant that was granted and is not wanted.
func (g *Guard) giveAway(ctx context.Context, have granted, lock Lock) {
	ctx = context.WithoutCancel(ctx)
	give := func() {
		t, _, err := g.handOn(ctx, have, lock, g.storeTimeout, 0)
		if err != nil {
			_, _ = t.Run(ctx, g.abort, have.grant.Deadline())
		}
	}
	if !g.tasks.Go(give) {
		give()
	}
}

// settle sees to it, behind the caller, that nothing stays of a claim that is given up:
// what it took, or may yet take, and its place in the queue. inFlight is an attempt
// that was not waited for; known says that the store knows of the claim; bury, that
// some command for it may still be on its way.
func (g *Guard) settle(ctx context.Context, lock Lock, claim guardstore.Claim, inFlight <-chan retry.Answer[guardstore.ClaimReply], known, bury bool) {
	if inFlight == nil && !known && !bury {
		return
	}
	ctx = context.WithoutCancel(ctx)
	settle := func() {
		if inFlight != nil {
			a, answered := g.lastAnswer(inFlight)
			bury = bury || !answered || a.Err != nil
			known = known || answered && (a.Reply.Status == guardstore.ClaimHeld || a.Reply.Ticket > 0)
		}
		if known || bury {
			r := guardstore.Release{Key: claim.Key, Owner: claim.Owner, TTL: claim.TTL, Tombstone: bury, Limit: claim.Limit}
			_, _ = g.newRelease(lock, r, nil).Run(ctx, g.abort, clock.Now().Add(claim.TTL+g.storeTimeout))
		}
	}
	if !g.tasks.Go(settle) {
		settle()
	}
}

// lastAnswer waits a while for the answer to an attempt whose caller left.
func (g *Guard) lastAnswer(inFlight <-chan retry.Answer[guardstore.ClaimReply]) (a retry.Answer[guardstore.ClaimReply], answered bool) {
	timer := time.NewTimer(g.patience())
	defer timer.Stop()
	select {
	case a = <-inFlight:
		return a, true
	case <-timer.C:
	case <-g.abort:
	}
	return a, false
}

// giveBack ends the hold's part in its grant. A loss that was known before, or that the
// release brings to light, is returned.
func (h *hold) giveBack(ctx context.Context, over *LostError, most, grace time.Duration) (*LostError, error) {
	if !errors.Is(over.Cause, ErrReleased) {
		// Whoever tells of the loss may not have come to this yet; the next call must not
		// find the key taken by this one.
		h.contender.forsake(h.root.ctx, h.grant, h.fence) //nolint:contextcheck // the hold's own
		return over, h.cleanUp(ctx, over)
	}
	deadline := h.grant.Deadline() // nobody moves it any more, unless it is passed on
	t, reply, err := h.g.handOn(ctx, granted{h.grant, h.fence, h.contender}, h.lock, most, grace)
	switch {
	case err != nil:
		return nil, h.releaseLater(ctx, t, deadline, err)
	case t == nil:
		h.event(Event{Kind: Handover})
	case reply.Status == guardstore.ReleaseRevoked:
		lost := h.lostError(ErrRevoked) // before anybody could tell
		h.event(Event{Kind: Loss, Op: "release", Err: lost})
		return lost, nil
	case reply.Status == guardstore.ReleaseLost && t.Attempts == 1 && clock.Now() < deadline:
		lost := h.lostError(watchdog.ErrNotHeld)
		h.event(Event{Kind: Loss, Op: "release", Err: lost})
		return lost, nil
	}
	return nil, nil
}

// cleanUp releases what may be left in the store of a grant that was lost. Nothing
// depends on it, so it is not waited for for long.
func (h *hold) cleanUp(ctx context.Context, over *LostError) error {
	t := h.g.newRelease(h.lock, h.grant.Release(h.fence), nil)
	if _, err := t.RunWithGrace(ctx, t.Begun.Add(releaseGrace), 0); err != nil {
		return h.releaseLater(ctx, t, h.grant.Deadline(), err)
	}
	return nil
}

// releaseLater repeats an unconfirmed release behind the caller until the deadline.
func (h *hold) releaseLater(ctx context.Context, t *retry.Call[guardstore.ReleaseReply], deadline clock.Instant, err error) error {
	failure := error(storeError(t.Failure(err)))
	if ctx.Err() != nil {
		failure = ended(ctx)
	}
	h.event(Event{Kind: ReleaseFailure, Op: "release", Err: failure})
	if refused := (*guardstore.RefusedError)(nil); !errors.As(err, &refused) {
		h.g.tasks.Go(func() {
			_, _ = t.Run(context.WithoutCancel(ctx), h.g.abort, deadline)
		})
	}
	return failure
}
