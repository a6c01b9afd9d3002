package tracing_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

// A wait that ends without the lock has its outcome. Another caller holds the lock, in a trace of its own.
func TestWait_EndWithoutTheLockHasItsOutcome(t *testing.T) {
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

				want := acquired(caller.SpanContext().SpanID())
				want.Attributes["redlatch.lock.outcome"] = test.outcome
				want.Attributes["redlatch.lock.queued"] = test.queued
				want.Attributes["redlatch.lock.holder"] = "worker-7"
				if test.errorType != "" {
					want.Status = codes.Error
					want.Attributes["error.type"] = test.errorType
				}
				assert.Contains(t, r.seen(t), want)
				assert.Contains(t, r.links(), []trace.SpanContext{r.the(t, "hold order").SpanContext()})
				for _, wait := range r.named("acquire order") {
					assert.NotContains(t, attributesOf(wait.Attributes()), local, "no lock was handed over")
				}
				points := r.points(t)
				assert.Contains(t, points["redlatch.lock.wait.duration"], point{want.metric(), 1}, "the same on the metric")
				assert.Equal(t, none, points["redlatch.lock.waiting"])
			})
		})
	}
}

func TestWait_ErrorHasItsType(t *testing.T) {
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

// A release that was not confirmed is an error of the hold, unless its caller did not wait for it.
func TestHold_UnconfirmedReleaseHasItsOutcome(t *testing.T) {
	failed, unawaited := released(trace.SpanID{}), released(trace.SpanID{})
	failed.Status, failed.Attributes["error.type"] = codes.Error, "lock_store_unavailable"
	for _, test := range []struct {
		err  error
		want seen
	}{
		{&guard.StoreError{Op: "release", Key: "order:42", Err: errRefused}, failed},
		{context.DeadlineExceeded, unawaited},
	} {
		r := newEnv()
		holding := r.hold(t.Context())
		r.Event(holding, lock, guard.Event{Kind: guard.EventReleaseFailure, Op: "release", Err: test.err})
		r.release(holding)
		assert.Equal(t, []seen{test.want}, r.seen(t))
		assert.Equal(t, one(test.want.metric()), r.points(t)["redlatch.lock.hold.duration"])
	}
}

// A loss belongs to the span of its hold, also below other spans; where that has ended, to the caller's. Other events
// are on no span.
func TestEvent_LossIsOnTheSpanOfItsHold(t *testing.T) {
	r := newEnv()
	loss := guard.Event{Kind: guard.EventLoss, Err: &guard.LostError{}}
	ctx, caller := r.caller(t.Context())
	holding := r.hold(ctx)
	work, own := r.tracers.Tracer("test").Start(holding, "charge")
	for kind := guard.EventKind(0); kind < 1000; kind++ {
		if kind != guard.EventLoss {
			r.Event(work, lock, guard.Event{Kind: kind, Op: "acquire", Err: errRefused})
		}
	}
	r.Event(work, lock, loss)
	r.release(holding)
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
	r := newEnv()
	r.WaitEnd(t.Context(), lock, atOnce)
	r.release(t.Context())
	holding := r.hold(t.Context())
	r.release(holding)
	r.release(holding)
	inner := guard.Hold{Fence: 1, Depth: 2}
	r.HoldEnd(r.HoldStart(holding, lock, inner), lock, guard.HoldResult{Hold: inner, Outcome: guard.OutcomeLost})
	assert.Equal(t, []seen{released(trace.SpanID{})}, r.seen(t))
	assert.Equal(t, none, r.points(t)["redlatch.lock.active"])
}

// A Guard under another's hold of a key of the same name waits for a lock of its own.
func TestReentry_LockOfAnotherGuardIsNone(t *testing.T) {
	r := newEnv(tracing.WithKey())
	holding := r.hold(t.Context())
	begun := time.Now()
	r.wait(holding, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Elapsed: time.Minute})
	r.release(holding)
	span, hold := r.the(t, "acquire order"), r.the(t, "hold order")
	assert.WithinDuration(t, begun.Add(-time.Minute), span.StartTime(), 10*time.Second)
	assert.Equal(t, "order:42", attributesOf(span.Attributes())["redlatch.lock.key"])
	assert.Equal(t, hold.SpanContext().SpanID(), span.Parent().SpanID())
	assert.Empty(t, hold.Events())
}
