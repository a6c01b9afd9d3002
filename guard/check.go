package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// Check asks the store now whether the hold is still there, and so finds out sooner than
// the next renewal would: before a step that cannot be taken back, say. It returns nil, or
// the LostError of the hold, whose context is over then. A lease that was released is a
// LostError with ErrReleased. When the store does not answer within StoreTimeout it is a
// StoreError, and the hold goes on; when ctx ends first, its error. A nil ctx does not end.
func (l *Lease) Check(ctx context.Context) error { //nolint:contextcheck // a nil ctx has no parent
	if err := l.Err(); err != nil {
		return err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	h := l.hold
	c := h.g.cohorts.NewCheck(h.Label(), h.Grant)
	reply, err := c.Run(ctx, h.g.gate.Closed(), c.Begun.Add(h.g.storeTimeout))
	switch {
	case err == nil && !reply.Held:
		h.g.watchdog.End(h.Grant, watchdog.NotHeld(reply))
	case err == nil:
	case l.Err() != nil: // it is over, whatever kept the answer away
	case ctx.Err() != nil:
		return ended(ctx)
	default:
		return storeError(c.Failure(err), h.lock.Name)
	}
	return l.Err()
}
