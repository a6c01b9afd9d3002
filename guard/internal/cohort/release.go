package cohort

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

const (
	acquireOp = "acquire"
	releaseOp = "release"
)

// Carrier sends commands, for callers that may leave: a call returns at the end
// of leave at the latest, and done is called when the command is answered, or failed.
type Carrier interface {
	StartAcquire(ctx, leave context.Context, c guardstore.Claim, done func(guardstore.ClaimReply, error))
	StartRelease(ctx, leave context.Context, r guardstore.Release, done func(guardstore.ReleaseReply, error))
}

// newRequest makes what is asked of the store for a caller.
func (t *Table) newRequest(w *waiter) guardstore.Claim {
	return guardstore.Claim{Key: w.Label.Key, Owner: t.NewOwner(w.Limit), TTL: w.TTL, Metadata: w.Metadata, Limit: w.Limit}
}

func (t *Table) newAcquire(label retry.Label, request guardstore.Claim) *retry.Call[guardstore.ClaimReply] {
	return retry.NewCall(t.Calls, acquireOp, label, &t.claimed, func(ctx, leave context.Context, _ bool, done func(guardstore.ClaimReply, error)) {
		t.Carrier.StartAcquire(ctx, leave, request, done)
	})
}

// NewRelease begins to give back what an owner has.
func (t *Table) NewRelease(label retry.Label, r guardstore.Release) *retry.Call[guardstore.ReleaseReply] {
	return t.newRelease(label, r, nil)
}

// newRelease gives back a claim, with the next one if there is one. Only the
// first attempt carries that: once its outcome is unknown, the next claim asks for
// itself.
func (t *Table) newRelease(label retry.Label, r guardstore.Release, next *claim) *retry.Call[guardstore.ReleaseReply] {
	return retry.NewCall(t.Calls, releaseOp, label, &t.released, func(ctx, leave context.Context, again bool, done func(guardstore.ReleaseReply, error)) {
		sent := r
		if next != nil && !again {
			sent.Next = &guardstore.NextClaim{Owner: next.request.Owner, Metadata: next.request.Metadata}
		}
		t.Carrier.StartRelease(ctx, leave, sent, t.notifier.whenFinished(label, r, done))
	})
}

// Release passes a hold whose work ended in good order to the next in the queue, or gives it
// back. It waits for that until ctx ends, and a grace then, but no longer than most. It returns
// the call, and what came of it, or nil if the hold was handed over.
func (t *Table) Release(ctx context.Context, h Hold, label retry.Label, most, grace time.Duration) (call *retry.Call[guardstore.ReleaseReply], reply guardstore.ReleaseReply, err error) {
	handedOver, next := h.cohort.handOver(h.Grant, h.Fence)
	if handedOver {
		return nil, guardstore.ReleaseReply{}, nil
	}
	if next != nil {
		t.notifier.register(next)
	}
	call = t.newRelease(label, h.Grant.Release(h.Fence), next)
	reply, err = call.RunWithGrace(ctx, call.Begun.Add(min(most, t.Calls.Timeout)), grace)
	if next != nil {
		next.resume(ctx, call, reply, err)
	}
	return call, reply, err
}

// resume goes on for those in the queue, with what the release of the grant before said of
// their claim.
func (cl *claim) resume(ctx context.Context, call *retry.Call[guardstore.ReleaseReply], reply guardstore.ReleaseReply, err error) {
	switch {
	case err == nil && reply.Next.Status == guardstore.ClaimHeld:
		grant := watchdog.NewGrant(cl.request, reply.Next, call.Sent, false, cl.c.id.fixed)
		cl.table.notifier.unregister(cl.request.Owner)
		if !cl.c.granted(cl, grant) {
			cl.abandon(ctx, true)
		}
	case err == nil && reply.Next.Status == guardstore.ClaimBusy:
		cl.queued(reply.Next)
		if reply.Next.Done {
			cl.c.setRest(reply.Next)
		} else {
			cl.remaining = clock.Forever // of whoever has it now, nothing is known yet
		}
		cl.start(ctx, false)
	default:
		cl.inDoubt = err != nil || call.InDoubt
		cl.start(ctx, true)
	}
}

// Abandon gives up a hold that was lost: those in the queue claim the key anew.
func (t *Table) Abandon(ctx context.Context, h Hold) { h.cohort.abandon(ctx, h.Grant, h.Fence) }

// releaseUnused releases, behind the caller, a hold that it does not want.
func (t *Table) releaseUnused(ctx context.Context, h Hold, label retry.Label) {
	ctx = context.WithoutCancel(ctx)
	release := func() {
		call, _, err := t.Release(ctx, h, label, t.Calls.Timeout, 0)
		if err != nil {
			_, _ = call.Run(ctx, t.Abort, h.Grant.Deadline())
		}
	}
	if !t.Tasks.Go(release) {
		release()
	}
}

// abandonInDoubt sees to it, behind the caller, that nothing stays of a claim that is given up:
// what it took, or may yet take, and its ticket in the queue. inFlight is an attempt
// that was not waited for; known says that the store knows of the claim; inDoubt, that
// some command for it may still be on its way.
func (t *Table) abandonInDoubt(ctx context.Context, label retry.Label, request guardstore.Claim, inFlight <-chan retry.Answer[guardstore.ClaimReply], known, inDoubt bool) {
	if inFlight == nil && !known && !inDoubt {
		return
	}
	ctx = context.WithoutCancel(ctx)
	abandon := func() {
		if inFlight != nil {
			a, answered := t.lastAnswer(inFlight)
			inDoubt = inDoubt || !answered || a.Err != nil
			known = known || answered && (a.Reply.Status == guardstore.ClaimHeld || a.Reply.Ticket > 0)
		}
		if known || inDoubt {
			r := guardstore.Release{Key: request.Key, Owner: request.Owner, TTL: request.TTL, Tombstone: inDoubt, Limit: request.Limit}
			_, _ = t.NewRelease(label, r).Run(ctx, t.Abort, clock.Now().Add(request.TTL+t.Calls.Timeout))
		}
	}
	if !t.Tasks.Go(abandon) {
		abandon()
	}
}

// lastAnswer waits a while for the answer to an attempt whose caller left.
func (t *Table) lastAnswer(inFlight <-chan retry.Answer[guardstore.ClaimReply]) (a retry.Answer[guardstore.ClaimReply], answered bool) {
	timer := time.NewTimer(t.Calls.AttemptTimeout)
	defer timer.Stop()
	select {
	case a = <-inFlight:
		return a, true
	case <-timer.C:
	case <-t.Abort:
	}
	return a, false
}
