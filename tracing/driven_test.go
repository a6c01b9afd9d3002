package tracing_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/redlatch/redlatch/guard"
)

// These tests make the calls that a Guard makes, to have those under their control that
// it makes in rare moments.

var lock = guard.Lock{Name: "order", Key: "order:42"}

func TestDriven_HandedOver(t *testing.T) {
	for name, local := range map[string]bool{"locally": true, "by another process": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv()
			ctx, caller := r.caller(t.Context())
			r.wait(ctx, guard.WaitResult{
				Outcome: guard.OutcomeAcquired, Elapsed: 20 * time.Millisecond, Depth: 1, Queued: true, Local: local, Holder: "worker-7",
			})
			caller.End()
			span := r.the(t, "acquire order")
			assert.Equal(t, caller.SpanContext().SpanID(), span.Parent().SpanID())
			assert.Equal(t, attributes{
				"guard.lock.name": "order", "guard.lock.outcome": "acquired", "guard.lock.queued": true,
				"guard.lock.local": local, "guard.lock.holder": "worker-7",
			}, attributesOf(span.Attributes()))
			assert.Equal(t, codes.Unset, span.Status().Code)
			assert.InDelta(t, 0.02, r.sum(t, "guard.lock.wait.duration"), 1e-9)
		})
	}
}

// A hold passed on is told of its end after the next one has begun.
func TestDriven_HoldsThatOverlapInTheTelling(t *testing.T) {
	t.Parallel()
	r := newEnv()
	first, second := guard.Hold{Fence: 1, Depth: 1}, guard.Hold{Fence: 2, Depth: 1}
	firstCtx := r.HoldStart(t.Context(), lock, first)
	waiting := r.WaitStart(t.Context(), lock)
	r.Event(firstCtx, lock, guard.Event{Kind: guard.Handover})
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true, Local: true})
	secondCtx := r.HoldStart(t.Context(), lock, second)
	r.HoldEnd(firstCtx, lock, guard.HoldResult{Hold: first, Outcome: guard.OutcomeReleased, Elapsed: time.Second})
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeTimeout, Queued: true, Err: guard.ErrBusy})
	r.HoldEnd(secondCtx, lock, guard.HoldResult{Hold: second, Outcome: guard.OutcomeReleased, Elapsed: time.Second})

	holds, waits := r.named("hold order"), r.named("acquire order")
	assert.Equal(t, holds[0].SpanContext(), waits[0].Links()[0].SpanContext)
	assert.Equal(t, holds[1].SpanContext(), waits[1].Links()[0].SpanContext, "the second is still in the way")
	require.Len(t, holds[0].Events(), 1)
	assert.Equal(t, "guard.lock.handover", holds[0].Events()[0].Name)
	points := r.points(t)
	assert.Equal(t, one(attributes{"guard.lock.name": "order"}), points["guard.lock.handovers"])
	assert.Equal(t, none, points["guard.lock.active"])
}

// A hold that was over before somebody began to wait was not in the way.
func TestDriven_NoLinkToThePast(t *testing.T) {
	t.Parallel()
	r := newEnv()
	earlier := r.WaitStart(t.Context(), lock) // keeps what is known of the key alive
	hold := guard.Hold{Fence: 1, Depth: 1}
	r.HoldEnd(r.HoldStart(t.Context(), lock, hold), lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
	r.WaitEnd(earlier, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
	waits := r.named("acquire order")
	assert.Empty(t, waits[0].Links())
	assert.Len(t, waits[1].Links(), 1)
}

// A hold that is given back before Redis is asked was not in the way either.
func TestDriven_NoLinkWhereTheLockWasFree(t *testing.T) {
	t.Parallel()
	r := newEnv()
	hold := guard.Hold{Fence: 1, Depth: 1}
	holding := r.HoldStart(t.Context(), lock, hold)
	waiting := r.WaitStart(t.Context(), lock)
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	assert.Empty(t, r.the(t, "acquire order").Links())
}

func TestDriven_UnconfirmedRelease(t *testing.T) {
	failure := &guard.StoreError{Op: "release", Key: "order:42", Err: errRefused}
	for name, test := range map[string]struct {
		err    error
		status codes.Code
		kind   string
	}{
		"store down":           {failure, codes.Error, "store_unavailable"},
		"caller did not wait":  {context.Canceled, codes.Unset, ""},
		"caller's time was up": {context.DeadlineExceeded, codes.Unset, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv()
			hold := guard.Hold{Fence: 1, Depth: 1}
			ctx := r.HoldStart(t.Context(), lock, hold)
			r.Event(ctx, lock, guard.Event{Kind: guard.ReleaseFailure, Op: "release", Err: test.err})
			r.HoldEnd(ctx, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
			want := released(seen{Status: test.status, Events: []string{"guard.lock.release_failure"}})
			if test.kind != "" {
				want.Attributes["error.type"] = test.kind
			}
			assert.Equal(t, []seen{want}, r.seen(t))
			assert.Equal(t, one(want.metric()), r.points(t)["guard.lock.hold.duration"])
		})
	}
}

// An event belongs to the wait or hold of its key, and where there is none to the caller.
func TestDriven_WhereEventsGo(t *testing.T) {
	t.Parallel()
	r := newEnv()
	event := guard.Event{Kind: guard.StoreFailure, Op: "acquire", Err: errRefused}
	ctx, caller := r.caller(t.Context())
	r.Event(ctx, lock, event)
	waiting := r.WaitStart(ctx, lock)
	r.Event(waiting, lock, event)
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	holding := r.HoldStart(ctx, lock, guard.Hold{Depth: 1})
	work, own := r.tracers.Tracer("test").Start(holding, "charge")
	r.Event(work, lock, event)
	r.Event(work, guard.Lock{Name: "stock", Key: "stock"}, event)
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: guard.Hold{Depth: 1}, Outcome: guard.OutcomeReleased})
	r.Event(work, lock, event)
	own.End()
	caller.End()
	events := map[string]int{}
	for _, span := range r.spans.Ended() {
		events[span.Name()] = len(span.Events())
	}
	assert.Equal(t, map[string]int{"caller": 1, "acquire order": 1, "hold order": 1, "charge": 2}, events)
}

// Kinds that a later Guard may add are shown as far as they are known.
func TestDriven_EventOfAnUnknownKind(t *testing.T) {
	t.Parallel()
	r := newEnv()
	ctx, caller := r.caller(t.Context())
	r.Event(ctx, lock, guard.Event{Kind: 1000})
	caller.End()
	assert.Equal(t, "guard.lock.unknown", r.spans.Ended()[0].Events()[0].Name)
}

// Ends without a start, or a second time, do no harm.
func TestDriven_StrayEnds(t *testing.T) {
	t.Parallel()
	r := newEnv()
	hold := guard.Hold{Fence: 1, Depth: 1}
	over := guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased}
	r.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	r.HoldEnd(t.Context(), lock, over)
	ctx := r.HoldStart(t.Context(), lock, hold)
	r.HoldEnd(ctx, lock, over)
	r.HoldEnd(ctx, lock, over)
	inner := guard.Hold{Fence: 1, Depth: 2}
	r.HoldEnd(r.HoldStart(ctx, lock, inner), lock, guard.HoldResult{Hold: inner, Outcome: guard.OutcomeLost})
	assert.Equal(t, []seen{released(seen{})}, r.seen(t))
	assert.Equal(t, none, r.points(t)["guard.lock.active"])
}

// A Guard under another's hold of a key of the same name waits for a lock of its own.
func TestDriven_AnotherGuardsLockIsNoReentry(t *testing.T) {
	t.Parallel()
	r := newEnv()
	holding := r.HoldStart(t.Context(), lock, guard.Hold{Depth: 1})
	begun := time.Now()
	waiting := r.WaitStart(holding, lock)
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Elapsed: time.Minute})
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: guard.Hold{Depth: 1}, Outcome: guard.OutcomeReleased})
	span := r.the(t, "acquire order")
	assert.WithinDuration(t, begun.Add(-time.Minute), span.StartTime(), 10*time.Second)
	assert.Equal(t, r.the(t, "hold order").SpanContext().SpanID(), span.Parent().SpanID())
	assert.Empty(t, r.the(t, "hold order").Events())
}
