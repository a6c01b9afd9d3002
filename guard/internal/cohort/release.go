package cohort

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

const (
	acquireOp = "acquire"
	releaseOp = "release"
)

// AcquireCall sends a claim.
type AcquireCall = retry.Call[guardstore.Claim, guardstore.ClaimReply]

// ReleaseCall gives a claim back.
type ReleaseCall = retry.Call[guardstore.Release, guardstore.ReleaseReply]

// newRequest makes what is asked of the store for a caller.
func (t *Table) newRequest(w *waiter) guardstore.Claim {
	return guardstore.Claim{Key: w.Label.Key, Owner: t.NewOwner(w.Limit), TTL: w.TTL, Metadata: w.Metadata, Limit: w.Limit}
}

func (t *Table) newAcquire(label retry.Label, request guardstore.Claim) *AcquireCall {
	return retry.NewCall(t.Calls, acquireOp, label, t.acquire, request)
}

// NewRelease begins to give back what an owner has.
func (t *Table) NewRelease(label retry.Label, r guardstore.Release) *ReleaseCall {
	call := retry.NewCall(t.Calls, releaseOp, label, t.release, r)
	if t.notifier.queues.Load() { // else nobody grants anything to this process
		call.After = t.finished
	}
	return call
}

// Release passes a hold whose work ended in good order to the next in the queue, or gives it
// back. It waits for that until ctx ends, and a grace then, but no longer than most. It returns
// the call, and what came of it, or nil if the hold was handed over.
//
// A caller that shares the grant with others leaves them, see share.end.
func (t *Table) Release(ctx context.Context, h Hold, label retry.Label, most, grace time.Duration) (call *ReleaseCall, reply guardstore.ReleaseReply, err error) {
	if s := h.share(); s != nil {
		return s.end(ctx, h, label, most, grace)
	}
	return t.giveBack(ctx, h, label, most, grace)
}

// GiveBack is Release for a hold under which nothing ran.
func (t *Table) GiveBack(ctx context.Context, h Hold, label retry.Label, most, grace time.Duration) (call *ReleaseCall, reply guardstore.ReleaseReply, err error) {
	if !t.Leave(h) {
		return nil, guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	}
	return t.giveBack(ctx, h, label, most, grace)
}

// giveBack is for the only caller of a grant.
func (t *Table) giveBack(ctx context.Context, h Hold, label retry.Label, most, grace time.Duration) (call *ReleaseCall, reply guardstore.ReleaseReply, err error) {
	done, waited := h.cohort.handOver(h.Grant, h.Fence)
	if done {
		return nil, guardstore.ReleaseReply{}, nil
	}
	if waited {
		defer h.cohort.goOn(ctx)
	}
	call = t.NewRelease(label, h.Grant.Release(h.Fence))
	reply, err = call.RunWithGrace(ctx, call.Begun.Add(min(most, t.Calls.Timeout)), grace)
	return call, reply, err
}

// Abandon gives up a hold that was lost: those in the queue claim the key anew.
func (t *Table) Abandon(ctx context.Context, h Hold) { h.cohort.abandon(ctx, h.Grant, h.Fence) }

// releaseUnused releases, behind the caller, a hold that it does not want.
func (t *Table) releaseUnused(ctx context.Context, h Hold, label retry.Label) {
	if !t.Leave(h) {
		return
	}
	t.releaseBehind(ctx, h, label)
}

// releaseBehind is for the only caller of a grant.
func (t *Table) releaseBehind(ctx context.Context, h Hold, label retry.Label) {
	ctx = context.WithoutCancel(ctx)
	release := func() {
		call, _, err := t.giveBack(ctx, h, label, t.Calls.Timeout, 0)
		if err != nil {
			_, _ = call.Run(ctx, t.Abort, h.Grant.Deadline())
		}
	}
	if !t.Tasks.Go(release) {
		release()
	}
}

// abandonInDoubt sees to it, behind the caller, that nothing stays of a claim that is given up:
// what it took, or may yet take, and its ticket in the queue. known says that the store knows of
// the claim; inDoubt, that some command for it may still be on its way.
func (t *Table) abandonInDoubt(ctx context.Context, label retry.Label, request guardstore.Claim, known, inDoubt bool) {
	if !known && !inDoubt {
		return
	}
	ctx = context.WithoutCancel(ctx)
	abandon := func() {
		r := guardstore.Release{Key: request.Key, Owner: request.Owner, TTL: request.TTL, Tombstone: inDoubt, Limit: request.Limit}
		_, _ = t.NewRelease(label, r).Run(ctx, t.Abort, clock.Now().Add(request.TTL+t.Calls.Timeout))
	}
	if !t.Tasks.Go(abandon) {
		abandon()
	}
}
