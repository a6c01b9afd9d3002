package guard

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// run runs the work of Once under its hold, and notes what the release is to write. Until the work returns, nobody
// knows how it ends: a panic leaves that in the record. Once it has succeeded, a panic of encode, or of an observer,
// does not make its outcome unknown again.
func (o *once) run(ctx context.Context, work func(ctx context.Context) error, encode func() ([]byte, error)) error {
	h := o.hold
	outcome := &guardstore.Outcome{Once: o.Once, State: guardstore.RecordBegun, Holder: h.Metadata}
	h.Outcome = outcome
	if ctx.Err() != nil { // the work does not begin
		outcome.State = guardstore.RecordNone
		return ended(ctx)
	}
	switch err := work(ctx); {
	case err != nil && ctx.Err() != nil:
		return err // it may have had its effect
	case err != nil:
		outcome.State = guardstore.RecordNone
		return err
	}
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
