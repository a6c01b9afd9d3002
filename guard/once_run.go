package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/internal/guardhook"
)

// run runs the work of Once under its hold, and notes what the release is to write: nothing if it is not known how the
// work ended. Once it has succeeded, a panic of encode, or of an observer, does not make its outcome unknown.
func (o *once) run(ctx context.Context, work func(ctx context.Context) error, encode func() ([]byte, error)) error {
	h := o.hold
	outcome := &guardstore.Outcome{Once: o.Once, Holder: h.Metadata}
	if ctx.Err() != nil { // the work does not begin
		h.Outcome = outcome
		return ended(ctx)
	}
	err := work(ctx)
	if err != nil {
		if ctx.Err() == nil || errors.Is(err, guardhook.ErrNotBegun) { // else it may have had its effect
			h.Outcome = outcome
		}
		return err
	}
	h.Outcome = outcome
	outcome.State = guardstore.RecordNotKept
	result, err := encode()
	if err == nil && len(result) > o.max {
		err = fmt.Errorf("it has %d bytes, MaxResult is %d", len(result), o.max)
	}
	if err != nil {
		h.event(Event{Kind: EventNotKept, Op: "release", Err: &OnceError{
			Name: h.Label.Name, Key: h.Label.Key, Fence: h.Fence, Err: fmt.Errorf("%w: %w", ErrNotKept, err),
		}})
		return nil
	}
	outcome.State, outcome.Result = guardstore.RecordDone, result
	return nil
}
