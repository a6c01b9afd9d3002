package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

var (
	errOwn     = errors.New("own")
	errRefused = errors.New("connection refused")
)

// acquired and released are the spans of a lock that was free and given back.
func acquired(parent seen) seen {
	parent.Name = "acquire order"
	parent.Attributes = attributes{
		"redlatch.lock.name": "order", "redlatch.lock.outcome": "acquired", "redlatch.lock.queued": false,
	}
	return parent
}

func released(parent seen) seen {
	parent.Name = "hold order"
	parent.Attributes = attributes{"redlatch.lock.name": "order", "redlatch.lock.outcome": "released"}
	return parent
}

var (
	onceAcquired = one(attributes{"redlatch.lock.name": "order", "redlatch.lock.outcome": "acquired"})
	onceReleased = one(attributes{"redlatch.lock.name": "order", "redlatch.lock.outcome": "released"})
)

// A wait that ends without the lock has its outcome. Another caller holds the lock, in a trace of its own.
func TestWait_EndWithoutTheLockHasItsOutcome(t *testing.T) {
	cancelAfter := func(ctx context.Context, d time.Duration) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx
	}
	for name, test := range map[string]struct {
		call      func(ctx context.Context, g *guard.Guard) error
		outcome   string
		errorType string // "" = no error
		queued    bool
	}{
		"busy": {func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(ctx, order, nothing, guard.NoWait())
		}, "busy", "lock_busy", false},
		"timeout": {func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(ctx, order, nothing, guard.Wait(3*time.Second))
		}, "timeout", "lock_wait_timeout", true},
		"cancelled": {func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(cancelAfter(ctx, 3*time.Second), order, nothing)
		}, "canceled", "", true},
		"cancelled, with a cause": {func(ctx context.Context, g *guard.Guard) error {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(3*time.Second, func() { cancel(&guard.LostError{Name: "outer", Cause: errOwn}) })
			return g.WithLock(ctx, order, nothing)
		}, "canceled", "", true},
		"deadline": {func(ctx context.Context, g *guard.Guard) error {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			return g.WithLock(ctx, order, nothing)
		}, "canceled", "deadline_exceeded", true},
		"closed": {func(ctx context.Context, g *guard.Guard) error {
			time.AfterFunc(3*time.Second, func() { _ = g.Close() })
			return g.WithLock(ctx, order, nothing)
		}, "closed", "shutting_down", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
				lease, err := g.Acquire(t.Context(), order, guard.Metadata("worker-7"))
				require.NoError(t, err)
				ctx, caller := r.caller(t.Context())
				require.Error(t, test.call(ctx, g))
				caller.End()
				_ = lease.Release(t.Context())
				synctest.Wait()

				want := acquired(seen{Parent: caller.SpanContext().SpanID()})
				want.Attributes["redlatch.lock.outcome"] = test.outcome
				want.Attributes["redlatch.lock.queued"] = test.queued
				want.Attributes["redlatch.lock.holder"] = "worker-7"
				want.Links = append(want.Links, r.the(t, "hold order").SpanContext().SpanID())
				set := attributes{"redlatch.lock.name": "order", "redlatch.lock.outcome": test.outcome}
				if test.errorType != "" {
					want.Status = codes.Error
					want.Attributes["error.type"] = test.errorType
					set["error.type"] = test.errorType
				}
				assert.Contains(t, r.seen(t), want)
				for _, wait := range r.named("acquire order") {
					assert.NotContains(t, attributesOf(wait.Attributes()), local, "no lock was handed over")
				}
				points := r.points(t)
				assert.Contains(t, points["redlatch.lock.wait.duration"], point{set, 1}, "the same on the metric")
				assert.Equal(t, none, points["redlatch.lock.waiting"])
			})
		})
	}
}

func TestWait_ErrorHasItsType(t *testing.T) {
	t.Parallel()
	for want, err := range map[any]error{
		"lock_busy":         fmt.Errorf("wrapped: %w", &guard.BusyError{}),
		"deadline_exceeded": fmt.Errorf("wrapped: %w", context.DeadlineExceeded),
		"canceled":          fmt.Errorf("wrapped: %w", context.Canceled),
		"_OTHER":            errOwn,
	} {
		r := newEnv()
		r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeError, Err: err})
		assert.Equal(t, want, attributesOf(r.the(t, "acquire order").Attributes())["error.type"])
	}
}

// The tests below make the calls that a Guard makes, also those of rare moments.

var lock = guard.Lock{Name: "order", Key: "order:42"}

// The end of a hold that was passed on is reported after the next one has begun.
func TestHold_ReportsMayOverlap(t *testing.T) {
	t.Parallel()
	r := newEnv()
	first, second := guard.Hold{Fence: 1, Depth: 1}, guard.Hold{Fence: 2, Depth: 1}
	firstCtx := r.HoldStart(t.Context(), lock, first)
	waiting := r.WaitStart(t.Context(), lock)
	r.Event(firstCtx, lock, guard.Event{Kind: guard.EventHandover})
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true, Local: true})
	secondCtx := r.HoldStart(t.Context(), lock, second)
	r.HoldEnd(firstCtx, lock, guard.HoldResult{Hold: first, Outcome: guard.OutcomeReleased, Elapsed: time.Second})
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeTimeout, Queued: true, Err: guard.ErrBusy})
	r.HoldEnd(secondCtx, lock, guard.HoldResult{Hold: second, Outcome: guard.OutcomeReleased, Elapsed: time.Second})

	holds, waits := r.named("hold order"), r.named("acquire order")
	assert.Equal(t, holds[0].SpanContext(), waits[0].Links()[0].SpanContext)
	assert.Equal(t, holds[1].SpanContext(), waits[1].Links()[0].SpanContext, "the second is still in the way")
	assert.Empty(t, holds[0].Events())
	points := r.points(t)
	assert.Equal(t, one(attributes{"redlatch.lock.name": "order"}), points["redlatch.lock.handovers"])
	assert.Equal(t, none, points["redlatch.lock.active"])
}

// A hold stays in the way, whatever other keys come and whichever callers give up.
func TestLink_EachCallerLinksToTheHold(t *testing.T) {
	t.Parallel()
	r := newEnv()
	hold, other := guard.Hold{Fence: 1, Depth: 1}, guard.Lock{Name: "other", Key: "other"}
	holding := r.HoldStart(t.Context(), lock, hold)
	r.WaitEnd(r.WaitStart(t.Context(), other), other, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	for range 2 {
		r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeTimeout, Queued: true, Err: guard.ErrBusy})
	}
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
	for _, wait := range r.named("acquire order") {
		require.Len(t, wait.Links(), 1)
		assert.Equal(t, trace.SpanContextFromContext(holding), wait.Links()[0].SpanContext)
	}
}

// A hold that ended before a caller began to wait was not in the way. Of several holds, the last one is linked.
func TestLink_EndedHoldsAreNotLinked(t *testing.T) {
	t.Parallel()
	r := newEnv()
	hold := guard.Hold{Fence: 1, Depth: 1}
	holds := func() trace.SpanContext {
		ctx := r.HoldStart(t.Context(), lock, hold)
		r.HoldEnd(ctx, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
		return trace.SpanContextFromContext(ctx)
	}
	earlier := r.WaitStart(t.Context(), lock)
	holds()
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
	last := holds()
	r.WaitEnd(earlier, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
	waits := r.named("acquire order")
	assert.Empty(t, waits[0].Links())
	require.Len(t, waits[1].Links(), 1)
	assert.Equal(t, last, waits[1].Links()[0].SpanContext)
}

// A hold that is given back before Redis is asked was not in the way either.
func TestLink_FreeLocksHaveNoLink(t *testing.T) {
	t.Parallel()
	r := newEnv()
	hold := guard.Hold{Fence: 1, Depth: 1}
	holding := r.HoldStart(t.Context(), lock, hold)
	waiting := r.WaitStart(t.Context(), lock)
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	assert.Empty(t, r.the(t, "acquire order").Links())
}

func TestHold_UnconfirmedReleaseHasItsOutcome(t *testing.T) {
	failure := &guard.StoreError{Op: "release", Key: "order:42", Err: errRefused}
	for name, test := range map[string]struct {
		err    error
		status codes.Code
		kind   string
	}{
		"store down":           {failure, codes.Error, "lock_store_unavailable"},
		"caller did not wait":  {context.Canceled, codes.Unset, ""},
		"caller's time was up": {context.DeadlineExceeded, codes.Unset, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv()
			hold := guard.Hold{Fence: 1, Depth: 1}
			ctx := r.HoldStart(t.Context(), lock, hold)
			r.Event(ctx, lock, guard.Event{Kind: guard.EventReleaseFailure, Op: "release", Err: test.err})
			r.HoldEnd(ctx, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
			want := released(seen{Status: test.status})
			if test.kind != "" {
				want.Attributes["error.type"] = test.kind
			}
			assert.Equal(t, []seen{want}, r.seen(t))
			assert.Equal(t, one(want.metric()), r.points(t)["redlatch.lock.hold.duration"])
		})
	}
}

// A loss belongs to the span of its hold, also below other spans; where that has ended, to the caller's. Other events
// are on no span.
func TestEvent_LossIsOnTheSpanOfItsHold(t *testing.T) {
	t.Parallel()
	r := newEnv()
	loss := guard.Event{Kind: guard.EventLoss, Err: &guard.LostError{}}
	ctx, caller := r.caller(t.Context())
	holding := r.HoldStart(ctx, lock, guard.Hold{Depth: 1})
	work, own := r.tracers.Tracer("test").Start(holding, "charge")
	for kind := guard.EventKind(0); kind < 1000; kind++ {
		if kind != guard.EventLoss {
			r.Event(work, lock, guard.Event{Kind: kind, Op: "acquire", Err: errRefused})
		}
	}
	r.Event(work, lock, loss)
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: guard.Hold{Depth: 1}, Outcome: guard.OutcomeReleased})
	r.Event(work, lock, loss)
	own.End()
	caller.End()
	events := map[string]int{}
	for _, span := range r.spans.Ended() {
		events[span.Name()] = len(span.Events())
	}
	assert.Equal(t, map[string]int{"caller": 0, "hold order": 1, "charge": 1}, events)
}

// Ends without a start, or a second time, do no harm.
func TestWait_StrayEndsAreIgnored(t *testing.T) {
	t.Parallel()
	r := newEnv()
	hold := guard.Hold{Fence: 1, Depth: 1}
	result := guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased}
	r.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	r.HoldEnd(t.Context(), lock, result)
	ctx := r.HoldStart(t.Context(), lock, hold)
	r.HoldEnd(ctx, lock, result)
	r.HoldEnd(ctx, lock, result)
	inner := guard.Hold{Fence: 1, Depth: 2}
	r.HoldEnd(r.HoldStart(ctx, lock, inner), lock, guard.HoldResult{Hold: inner, Outcome: guard.OutcomeLost})
	assert.Equal(t, []seen{released(seen{})}, r.seen(t))
	assert.Equal(t, none, r.points(t)["redlatch.lock.active"])
}

// A Guard under another's hold of a key of the same name waits for a lock of its own.
func TestReentry_LockOfAnotherGuardIsNone(t *testing.T) {
	t.Parallel()
	r := newEnv(tracing.WithKey())
	holding := r.HoldStart(t.Context(), lock, guard.Hold{Depth: 1})
	begun := time.Now()
	waiting := r.WaitStart(holding, lock)
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Elapsed: time.Minute})
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: guard.Hold{Depth: 1}, Outcome: guard.OutcomeReleased})
	span := r.the(t, "acquire order")
	assert.WithinDuration(t, begun.Add(-time.Minute), span.StartTime(), 10*time.Second)
	assert.Equal(t, "order:42", attributesOf(span.Attributes())["redlatch.lock.key"])
	assert.Equal(t, r.the(t, "hold order").SpanContext().SpanID(), span.Parent().SpanID())
	assert.Empty(t, r.the(t, "hold order").Events())
}

const (
	local      attribute.Key = "redlatch.lock.local"
	holderText attribute.Key = "redlatch.lock.holder"
	parent                   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// wait drives the observer through a wait, as a Guard does.
func (r *env) wait(ctx context.Context, result guard.WaitResult) trace.SpanContext {
	l := guard.Lock{Name: "order", Key: "order:42"}
	ctx = r.WaitStart(ctx, l)
	r.WaitEnd(ctx, l, result)
	return trace.SpanContextFromContext(ctx)
}
