package tracing_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
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
		"guard.lock.name": "order", "guard.lock.outcome": "acquired", "guard.lock.queued": false,
	}
	return parent
}

func released(parent seen) seen {
	parent.Name = "hold order"
	parent.Attributes = attributes{"guard.lock.name": "order", "guard.lock.outcome": "released"}
	return parent
}

var (
	onceAcquired = one(attributes{"guard.lock.name": "order", "guard.lock.outcome": "acquired"})
	onceReleased = one(attributes{"guard.lock.name": "order", "guard.lock.outcome": "released"})
)

func TestWait_Free(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		ctx, caller := r.caller(t.Context())
		var fence uint64
		require.NoError(t, g.WithLock(ctx, order, func(ctx context.Context) error {
			lease, _ := guard.FromContext(ctx)
			fence = lease.Fence()
			time.Sleep(3 * time.Second)
			_, own := r.tracers.Tracer("test").Start(ctx, "charge")
			own.End()
			return nil
		}))
		caller.End()

		below := seen{Parent: caller.SpanContext().SpanID()}
		assert.Equal(t, []seen{acquired(below), released(below)}, r.seen(t))
		hold := r.the(t, "hold order")
		assert.EqualValues(t, fence, attributesOf(hold.Attributes())["guard.lock.fence"])
		assert.Equal(t, 3*time.Second, hold.EndTime().Sub(hold.StartTime()))
		assert.Equal(t, hold.SpanContext().SpanID(), r.spans.Ended()[1].Parent().SpanID(), "of the work's own span")

		points := r.points(t)
		assert.Equal(t, onceAcquired, points["guard.lock.wait.duration"])
		assert.Equal(t, onceReleased, points["guard.lock.hold.duration"])
		assert.Equal(t, none, points["guard.lock.active"])
		assert.Equal(t, none, points["guard.lock.waiting"])
		assert.Len(t, points, 4)
	})
}

func TestWait_ActiveAndWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		lease, err := g.Acquire(t.Context(), order)
		require.NoError(t, err)
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() { assert.NoError(t, g.WithLock(t.Context(), order, nothing)) })
		}
		synctest.Wait()
		points, name := r.points(t), attributes{"guard.lock.name": "order"}
		assert.Equal(t, []point{{name, 1}}, points["guard.lock.active"])
		assert.Equal(t, []point{{name, 3}}, points["guard.lock.waiting"])
		require.NoError(t, lease.Release(t.Context()))
		waiters.Wait()
		points = r.points(t)
		assert.Equal(t, none, points["guard.lock.active"])
		assert.Equal(t, none, points["guard.lock.waiting"])
	})
}

// What is said of a wait that comes to an end without the lock. Somebody else holds it,
// in a trace of their own.
func TestWait_NotAcquired(t *testing.T) {
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
		}, "closed", "guard_closed", true},
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
				want.Attributes["guard.lock.outcome"] = test.outcome
				want.Attributes["guard.lock.queued"] = test.queued
				want.Attributes["guard.lock.holder"] = "worker-7"
				want.Links = append(want.Links, r.the(t, "hold order").SpanContext().SpanID())
				set := attributes{"guard.lock.name": "order", "guard.lock.outcome": test.outcome}
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
				assert.Contains(t, points["guard.lock.wait.duration"], point{set, 1}, "the same on the metric")
				assert.Equal(t, none, points["guard.lock.waiting"])
			})
		})
	}
}

func TestWait_StoreDown(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		s.Fail(errRefused)
		ctx, caller := r.caller(t.Context())
		require.ErrorIs(t, g.WithLock(ctx, order, nothing), guard.ErrStore)
		require.NoError(t, g.WithLock(ctx, order, nothing, guard.FailOpen()))
		caller.End()

		want := acquired(seen{Parent: caller.SpanContext().SpanID(), Status: codes.Error})
		want.Attributes["guard.lock.outcome"] = "error"
		want.Attributes["error.type"] = "store_unavailable"
		all := r.seen(t)
		var events []string // of the wait or, if the Guard does not say of which wait, the caller
		for i := range all {
			events = append(events, all[i].Events...)
			all[i].Events = nil
		}
		assert.Equal(t, []seen{want, want}, all)
		ended := r.spans.Ended()
		for _, event := range ended[len(ended)-1].Events() {
			events = append(events, event.Name)
		}
		assert.Contains(t, events, "guard.lock.store_failure")
		assert.Contains(t, events, "guard.lock.failed_open")

		points := r.points(t)
		assert.Equal(t, []point{{want.metric(), 2}}, points["guard.lock.wait.duration"])
		assert.Equal(t, one(attributes{"guard.lock.name": "order", "error.type": "store_unavailable"}),
			points["guard.lock.failed_open"])
		assert.NotContains(t, points, "guard.lock.active", "work without a lease is no hold")
		assert.NotContains(t, points, "guard.lock.renewals")
	})
}

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

// The end of a hold that was passed on is reported after the next one has begun.
func TestDriven_HoldsWhoseReportsOverlap(t *testing.T) {
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
	assert.Equal(t, attributes{"guard.lock.name": "order"}, attributesOf(holds[0].Events()[0].Attributes))
	points := r.points(t)
	assert.Equal(t, one(attributes{"guard.lock.name": "order"}), points["guard.lock.handovers"])
	assert.Equal(t, none, points["guard.lock.active"])
}

// A hold stays in the way, whatever other keys come and whichever callers give up.
func TestDriven_EachCallerLinksToTheHold(t *testing.T) {
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

// A hold that ended before a caller began to wait was not in the way.
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
	result := guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased}
	r.WaitEnd(t.Context(), lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	r.HoldEnd(t.Context(), lock, result)
	ctx := r.HoldStart(t.Context(), lock, hold)
	r.HoldEnd(ctx, lock, result)
	r.HoldEnd(ctx, lock, result)
	inner := guard.Hold{Fence: 1, Depth: 2}
	r.HoldEnd(r.HoldStart(ctx, lock, inner), lock, guard.HoldResult{Hold: inner, Outcome: guard.OutcomeLost})
	assert.Equal(t, []seen{released(seen{})}, r.seen(t))
	assert.Equal(t, none, r.points(t)["guard.lock.active"])
}

// A Guard under another's hold of a key of the same name waits for a lock of its own.
func TestDriven_AnotherGuardsLockIsNoReentry(t *testing.T) {
	t.Parallel()
	r := newEnv(tracing.WithKey())
	holding := r.HoldStart(t.Context(), lock, guard.Hold{Depth: 1})
	begun := time.Now()
	waiting := r.WaitStart(holding, lock)
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Elapsed: time.Minute})
	r.HoldEnd(holding, lock, guard.HoldResult{Hold: guard.Hold{Depth: 1}, Outcome: guard.OutcomeReleased})
	span := r.the(t, "acquire order")
	assert.WithinDuration(t, begun.Add(-time.Minute), span.StartTime(), 10*time.Second)
	assert.Equal(t, "order:42", attributesOf(span.Attributes())["guard.lock.key"])
	assert.Equal(t, r.the(t, "hold order").SpanContext().SpanID(), span.Parent().SpanID())
	assert.Empty(t, r.the(t, "hold order").Events())
}

// waitFor has one caller hold the lock, and another one wait until it is released. It gives
// the span of the hold.
func waitFor(t *testing.T, g *guard.Guard, holder, waiter context.Context, opts ...guard.LockOption) trace.SpanContext {
	t.Helper()
	lease, err := g.Acquire(holder, order, opts...)
	require.NoError(t, err)
	var waits sync.WaitGroup
	waits.Go(func() { assert.NoError(t, g.WithLock(waiter, order, nothing)) })
	synctest.Wait()
	require.NoError(t, lease.Release(holder))
	waits.Wait()
	return trace.SpanContextFromContext(lease.Context())
}

// A wait links once to the hold of this process that was in its way, whatever the hold's metadata says.
func TestLink_WaitedForAHoldOfThisProcess(t *testing.T) {
	plain := func(_ context.Context, text string) guard.LockOption { return guard.Metadata(text) }
	for name, test := range map[string]struct {
		metadata  func(ctx context.Context, text string) guard.LockOption
		text      string
		unsampled bool
		opts      []tracing.Option
		linked    bool
	}{
		"text":                    {plain, "worker-7", false, nil, true},
		"its trace":               {tracing.Metadata, "", false, nil, true},
		"its trace, not sampled":  {tracing.Metadata, "worker-7", true, nil, false},
		"its trace, WithoutLinks": {tracing.Metadata, "worker-7", false, []tracing.Option{tracing.WithoutLinks()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
				holder, holding := r.caller(t.Context())
				if test.unsampled {
					never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
					holder, _ = never.Tracer("test").Start(t.Context(), "caller")
				}
				ctx, caller := r.caller(t.Context())
				first := waitFor(t, g, holder, ctx, test.metadata(holder, test.text))
				caller.End()
				holding.End()
				waits := r.named("acquire order")
				waited := waits[len(waits)-1] // the holder's own is not there if it is not sampled
				got := attributesOf(waited.Attributes())
				assert.Equal(t, caller.SpanContext().SpanID(), waited.Parent().SpanID())
				assert.Equal(t, true, got["guard.lock.queued"])
				assert.Contains(t, got, local)
				if test.text == "" {
					assert.NotContains(t, got, holderText)
				} else {
					assert.Equal(t, test.text, got[holderText])
				}
				if !test.linked {
					assert.Empty(t, waited.Links())
					return
				}
				require.Len(t, waited.Links(), 1)
				assert.Equal(t, first, waited.Links()[0].SpanContext)
				assert.NotEqual(t, first.TraceID(), waited.SpanContext().TraceID())
			}, test.opts...)
		})
	}
}

// Each caller of a queue links to the one before it.
func TestLink_LinksToTheLastHoldInTheWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		lease, err := g.Acquire(t.Context(), order)
		require.NoError(t, err)
		holds := []trace.SpanContext{trace.SpanContextFromContext(lease.Context())}
		var mu sync.Mutex
		var waits sync.WaitGroup
		for range 5 {
			waits.Go(func() {
				ctx, caller := r.caller(t.Context())
				defer caller.End()
				assert.NoError(t, g.WithLock(ctx, order, func(ctx context.Context) error {
					mu.Lock() // for the race detector: it knows no lock in a store
					holds = append(holds, trace.SpanContextFromContext(ctx))
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				}))
			})
		}
		synctest.Wait()
		require.NoError(t, lease.Release(t.Context()))
		waits.Wait()

		waited := r.named("acquire order")
		require.Len(t, waited, 6)
		assert.Empty(t, waited[0].Links(), "the first found it free")
		for i, wait := range waited[1:] {
			require.Len(t, wait.Links(), 1)
			assert.Equal(t, holds[i], wait.Links()[0].SpanContext)
		}
	})
}

// The holder's process and the waiter's have nothing in common but the store.
func TestLink_WaitedForAHoldOfAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		theirs := newEnv()
		other, err := guard.NewWithStore(s, guard.Observe(theirs))
		require.NoError(t, err)
		defer other.Close()
		ctx, holder := theirs.caller(t.Context())
		lease, err := other.Acquire(ctx, order, tracing.Metadata(ctx, "worker-7"))
		require.NoError(t, err)

		err = g.WithLock(t.Context(), order, nothing, guard.NoWait())
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Regexp(t, `^worker-7 traceparent=00-[0-9a-f]{32}-[0-9a-f]{16}-01$`, busy.Holder)
		require.NoError(t, lease.Release(ctx))
		holder.End()

		waited := r.the(t, "acquire order")
		require.Len(t, waited.Links(), 1)
		linked := waited.Links()[0].SpanContext
		assert.True(t, linked.IsRemote())
		assert.Equal(t, holder.SpanContext().SpanID(), linked.SpanID(), "the span that the hold is a child of")
		assert.Equal(t, theirs.the(t, "hold default").SpanContext().TraceID(), linked.TraceID())
		assert.Equal(t, "worker-7", attributesOf(waited.Attributes())["guard.lock.holder"])
	})
}

// Two calls of the same caller wait for each other, but not for the caller.
func TestLink_NoLinkToTheOwnCaller(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		other, err := guard.NewWithStore(s)
		require.NoError(t, err)
		defer other.Close()
		ctx, caller := r.caller(t.Context())
		lease, err := other.Acquire(ctx, order, tracing.Metadata(ctx, "worker-7"))
		require.NoError(t, err)
		require.ErrorIs(t, g.WithLock(ctx, order, nothing, guard.NoWait()), guard.ErrBusy)
		require.NoError(t, lease.Release(ctx))
		caller.End()
		assert.Empty(t, r.the(t, "acquire order").Links())
	})
}

func TestLink_MetadataThatIsNoTraceIsText(t *testing.T) {
	for _, text := range []string{
		"traceparent=", "worker traceparent=garbage", "xtraceparent=" + parent, "worker traceparent=" + parent + "-more",
		"traceparent=" + strings.Repeat("0", 55), "traceparent=" + strings.ToUpper(parent), parent, "traceparent = " + parent,
		"traceparent=00-00000000000000000000000000000000-0123456789abcdef-01", "traceparent:" + parent,
		"traceparent=01" + parent[2:], "traceparent=" + strings.TrimSuffix(parent, "1") + "0",
	} {
		t.Run(text, func(t *testing.T) {
			r := newEnv()
			r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true, Holder: text})
			span := r.the(t, "acquire order")
			assert.Empty(t, span.Links())
			assert.Equal(t, text, attributesOf(span.Attributes())[holderText])
		})
	}
}

func TestLink_MetadataMakesRoom(t *testing.T) {
	g := guardtest.NewGuard(t)
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	const room = guard.MaxMetadataLength - len(" traceparent=") - len(parent)
	for text, want := range map[string]int{
		"":                          len("traceparent=") + len(parent),
		strings.Repeat("x", room):   guard.MaxMetadataLength,
		strings.Repeat("x", room+1): room + 1,
		strings.Repeat("x", guard.MaxMetadataLength):   guard.MaxMetadataLength,
		strings.Repeat("x", room-1) + "\u00e9":         room + 1,
		strings.Repeat("traceparent=", 4) + " worker ": 4*len("traceparent=") + len(" worker ") + len(" traceparent=") + len(parent),
	} {
		lease, err := g.Acquire(ctx, order, tracing.Metadata(ctx, text))
		require.NoError(t, err)
		var busy *guard.BusyError
		require.ErrorAs(t, g.WithLock(t.Context(), order, nothing, guard.NoWait()), &busy)
		require.NoError(t, lease.Release(ctx))
		assert.Len(t, busy.Holder, want)

		r := newEnv()
		r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true, Holder: busy.Holder})
		got, _ := attributesOf(r.the(t, "acquire order").Attributes())[holderText].(string)
		assert.Equal(t, text, got, "the text comes back as it was")
	}
	_, err := g.Acquire(ctx, order, tracing.Metadata(ctx, strings.Repeat("x", guard.MaxMetadataLength+1)))
	assert.ErrorContains(t, err, "Metadata", "what is too long stays an error")
}

func TestLink_Traceparent(t *testing.T) {
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	sc := caller.SpanContext()
	assert.Equal(t, "traceparent=00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-01", tracing.Traceparent(ctx))
	var noContext context.Context
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	unsampled, _ := never.Tracer("test").Start(t.Context(), "caller")
	noIDs := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}))
	for _, none := range []context.Context{t.Context(), unsampled, noContext, noIDs} {
		assert.Empty(t, tracing.Traceparent(none))
	}

	r := newEnv()
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Queued: true, Holder: "worker-7 " + tracing.Traceparent(ctx)})
	waited := r.the(t, "acquire order")
	require.Len(t, waited.Links(), 1)
	assert.Equal(t, sc.SpanID(), waited.Links()[0].SpanContext.SpanID())
	assert.Equal(t, "worker-7", attributesOf(waited.Attributes())[holderText], "a text of one's own in front")
}

const (
	local      attribute.Key = "guard.lock.local"
	holderText attribute.Key = "guard.lock.holder"
	parent                   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// wait drives the observer through a wait, as a Guard does.
func (r *env) wait(ctx context.Context, result guard.WaitResult) trace.SpanContext {
	l := guard.Lock{Name: "order", Key: "order:42"}
	ctx = r.WaitStart(ctx, l)
	r.WaitEnd(ctx, l, result)
	return trace.SpanContextFromContext(ctx)
}

// unsampledHolds records the spans of holds, and samples those of waits only.
type unsampledHolds struct{ sdktrace.Sampler }

func (unsampledHolds) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.RecordAndSample
	if strings.HasPrefix(p.Name, "hold ") {
		decision = sdktrace.RecordOnly
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// A span that is recorded and not sampled is exported by nobody: a link to it would lead nowhere.
func TestSampled_NoLinkToAHoldThatIsNotSampled(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(unsampledHolds{sdktrace.AlwaysSample()}), sdktrace.WithSpanProcessor(spans))
	bubble(t, func(t *testing.T, _ *env, g *guard.Guard, _ *guardtest.Store) {
		hold := waitFor(t, g, t.Context(), t.Context())
		require.True(t, hold.IsValid())
		require.False(t, hold.IsSampled())
		waits := 0
		for _, span := range spans.Ended() {
			if span.Name() == "acquire order" {
				waits++
				assert.Empty(t, span.Links())
			}
		}
		assert.Equal(t, 2, waits)
	}, tracing.WithTracerProvider(provider))
}

// Where nothing is sampled and nothing measured, the work still runs under a span that is not sampled: what it
// begins is not sampled, either.
func TestSampled_TheWorkIsNotSampledWhereItsHoldIsNot(t *testing.T) {
	t.Parallel()
	o := tracing.New(tracing.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))))
	for _, ctx := range []context.Context{
		o.WaitStart(t.Context(), lock), o.HoldStart(t.Context(), lock, guard.Hold{Depth: 1}),
	} {
		sc := trace.SpanContextFromContext(ctx)
		assert.True(t, sc.IsValid())
		assert.False(t, sc.IsSampled())
	}
}

// The end of a hold is reported late: after that of the next one, and when a caller waits for the
// key anew. What is in the way of that wait is linked to all the same.
func TestBlocker_AnEndThatIsReportedLate(t *testing.T) {
	r := newEnv()
	lock := guard.Lock{Name: "order", Key: "order"}
	begin := guard.Hold{Depth: 1}
	result := guard.HoldResult{Hold: begin, Outcome: guard.OutcomeReleased}

	first := r.HoldStart(t.Context(), lock, begin)
	second := r.HoldStart(t.Context(), lock, begin)
	r.HoldEnd(second, lock, result)
	waits := r.WaitStart(t.Context(), lock)
	r.HoldEnd(first, lock, result)
	third := r.HoldStart(t.Context(), lock, begin)
	r.WaitEnd(waits, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true})
	r.HoldEnd(third, lock, result)

	links := r.the(t, "acquire order").Links()
	require.Len(t, links, 1)
	assert.Equal(t, trace.SpanContextFromContext(third), links[0].SpanContext)
}
