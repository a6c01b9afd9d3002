package guard

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// release ends the hold's part in its grant. A loss that was known before, or that the
// release brings to light, is returned.
func (h *hold) release(ctx context.Context, over *LostError, most, grace time.Duration) (*LostError, error) {
	if !errors.Is(over.Cause, ErrReleased) {
		// Whoever tells of the loss may not have come to this yet; the next call must not
		// find the key taken by this one.
		h.g.cohorts.Abandon(h.root.ctx, h.Hold) //nolint:contextcheck // the hold's own
		if !h.g.cohorts.Leave(h.Hold) {
			return over, nil
		}
		return over, h.releaseLost(ctx)
	}
	if h.Shared() {
		return h.leave(ctx, most, grace)
	}
	deadline := h.Grant.Deadline() // nobody moves it any more, unless it is handed over
	call, reply, err := h.g.cohorts.Release(ctx, h.Hold, retry.Label(h.lock), most, grace)
	switch {
	case err != nil:
		return nil, h.retryRelease(ctx, call, deadline, err)
	case call == nil:
		h.event(Event{Kind: Handover})
	case reply.Status == guardstore.ReleaseRevoked:
		return h.lostAtLast(ErrRevoked), nil
	case reply.Status == guardstore.ReleaseLost && call.Attempts == 1 && clock.Now() < deadline:
		return h.lostAtLast(watchdog.ErrNotHeld), nil
	}
	return nil, nil
}

// lostAtLast is for a loss that the release brought to light, before anybody could tell.
func (h *hold) lostAtLast(cause error) *LostError {
	lost := h.lostError(cause)
	h.event(Event{Kind: Loss, Op: "release", Err: lost})
	return lost
}

// releaseLost releases what may be left in the store of a grant that was lost. Nothing
// depends on it, so it is not waited for for long.
func (h *hold) releaseLost(ctx context.Context) error {
	call := h.g.cohorts.NewRelease(retry.Label(h.lock), h.Grant.Release(h.Fence))
	if _, err := call.RunWithGrace(ctx, call.Begun.Add(releaseGrace), 0); err != nil {
		return h.retryRelease(ctx, call, h.Grant.Deadline(), err)
	}
	return nil
}

// retryRelease repeats an unconfirmed release behind the caller until the deadline.
func (h *hold) retryRelease(ctx context.Context, call *cohort.ReleaseCall, deadline clock.Instant, err error) error {
	failure := error(storeError(call.Failure(err), h.lock.Name))
	if ctx.Err() != nil {
		failure = ended(ctx)
	}
	h.event(Event{Kind: ReleaseFailure, Op: "release", Err: failure})
	if refused := (*guardstore.RefusedError)(nil); !errors.As(err, &refused) {
		behind := context.WithoutCancel(ctx)
		if !h.g.tasks.Go(func() { _, _ = call.Run(behind, h.g.abort, deadline) }) && call.Attempts == 0 {
			_, _ = call.Run(behind, h.g.abort, clock.Now().Add(releaseGrace)) // closed: this is the one try
		}
	}
	return failure
}
