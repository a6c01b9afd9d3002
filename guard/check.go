package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
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
	err := h.outcome(ctx, h.Check(ctx, "check", cohort.Patience{Most: clock.Forever}))
	if over := l.Err(); over != nil {
		return over // whatever kept the answer away
	}
	return err
}
