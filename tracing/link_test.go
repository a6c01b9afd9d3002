package tracing_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

const (
	local      attribute.Key = "redlatch.lock.local"
	holderText attribute.Key = "redlatch.lock.holder"
	parent                   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// unsampled makes spans that are not sampled.
var unsampled = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))

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
				defer holding.End()
				if test.unsampled {
					holder, _ = unsampled.Tracer("test").Start(t.Context(), "caller")
				}
				ctx, caller := r.caller(t.Context())
				defer caller.End()
				lease, err := g.Acquire(holder, order, test.metadata(holder, test.text))
				require.NoError(t, err)
				var waits sync.WaitGroup
				waits.Go(func() { assert.NoError(t, g.WithLock(ctx, order, nothing)) })
				synctest.Wait()
				require.NoError(t, lease.Release(holder))
				waits.Wait()

				all := r.named("acquire order")
				waited := all[len(all)-1] // the holder's own is not there if it is not sampled
				got := attributesOf(waited.Attributes())
				assert.Equal(t, caller.SpanContext().SpanID(), waited.Parent().SpanID())
				assert.Equal(t, true, got["redlatch.lock.queued"])
				assert.Contains(t, got, local)
				text, _ := got[holderText].(string)
				assert.Equal(t, test.text, text)
				var want []trace.SpanContext
				if test.linked {
					want = append(want, trace.SpanContextFromContext(lease.Context()))
				}
				assert.Equal(t, want, r.links()[len(all)-1])
			}, test.opts...)
		})
	}
}

// Two calls of the same caller wait for each other, but not for the caller.
func TestLink_OwnCallerIsNotLinked(t *testing.T) {
	r := newEnv()
	ctx, caller := r.caller(t.Context())
	defer caller.End()
	r.wait(ctx, guard.WaitResult{Outcome: guard.OutcomeBusy, Err: guard.ErrBusy, Holder: "worker-7 " + tracing.Traceparent(ctx)})
	assert.Empty(t, r.the(t, "acquire order").Links())
}

func TestLink_MetadataThatIsNoTraceIsText(t *testing.T) {
	for _, text := range []string{
		"traceparent=", "worker traceparent=garbage", "xtraceparent=" + parent, "worker traceparent=" + parent + "-more",
		"traceparent=" + strings.Repeat("0", 55), "traceparent=" + strings.ToUpper(parent), parent, "traceparent = " + parent,
		"traceparent=00-00000000000000000000000000000000-0123456789abcdef-01", "traceparent:" + parent,
		"traceparent=01" + parent[2:], "traceparent=" + strings.TrimSuffix(parent, "1") + "0",
	} {
		r := newEnv()
		r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true, Holder: text})
		span := r.the(t, "acquire order")
		assert.Empty(t, span.Links(), text)
		assert.Equal(t, text, attributesOf(span.Attributes())[holderText])
	}
}

func TestLink_MetadataMakesRoom(t *testing.T) {
	g := guardtest.NewMemoryGuard(t)
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	const room = 256 - len(" traceparent=") - len(parent)
	for text, want := range map[string]int{
		"":                                     len("traceparent=") + len(parent),
		strings.Repeat("x", room):              256,
		strings.Repeat("x", room+1):            room + 1,
		strings.Repeat("x", room-1) + "\u00e9": room + 1,
		strings.Repeat("traceparent=", 4):      4*len("traceparent=") + len(" traceparent=") + len(parent),
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
}

func TestLink_Traceparent(t *testing.T) {
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	sc := caller.SpanContext()
	assert.Equal(t, "traceparent=00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-01", tracing.Traceparent(ctx))
	var noContext context.Context
	notSampled, _ := unsampled.Tracer("test").Start(t.Context(), "caller")
	noIDs := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}))
	for _, none := range []context.Context{t.Context(), notSampled, noContext, noIDs} {
		assert.Empty(t, tracing.Traceparent(none))
	}

	r := newEnv()
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeAcquired, Queued: true, Holder: "worker-7 " + tracing.Traceparent(ctx)})
	require.Len(t, r.links()[0], 1)
	assert.Equal(t, sc.SpanID(), r.links()[0][0].SpanID())
	assert.Equal(t, "worker-7", attributesOf(r.the(t, "acquire order").Attributes())[holderText], "a text of one's own in front")
}

// recordOnly records spans that are not sampled.
type recordOnly struct{ sdktrace.Sampler }

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}

// A span that is recorded and not sampled is not exported: a link to it would lead nowhere.
func TestSampled_HoldsThatAreNotSampledAreNotLinked(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	r := newEnv(tracing.WithTracerProvider(sdktrace.NewTracerProvider(
		sdktrace.WithSampler(recordOnly{sdktrace.AlwaysSample()}), sdktrace.WithSpanProcessor(spans))))
	r.hold(t.Context())
	r.wait(t.Context(), timedOut)
	require.Len(t, spans.Ended(), 1)
	assert.Empty(t, spans.Ended()[0].Links())
}

// Where nothing is sampled and nothing measured, the work still runs under a span that is not sampled: what it
// begins is not sampled, either.
func TestSampled_WorkIsSampledAsItsHold(t *testing.T) {
	o := tracing.New(tracing.WithTracerProvider(unsampled))
	for _, ctx := range []context.Context{o.WaitStart(t.Context(), lock), o.HoldStart(t.Context(), lock, held)} {
		sc := trace.SpanContextFromContext(ctx)
		assert.True(t, sc.IsValid())
		assert.False(t, sc.IsSampled())
	}
}

// The end of a hold that was passed on is reported after the next one has begun. That one stays in the way, whatever
// other keys come and whichever callers give up.
func TestLink_PassedOnHoldIsNotInTheWay(t *testing.T) {
	r := newEnv()
	first := r.hold(t.Context())
	waiting := r.WaitStart(t.Context(), lock)
	r.Event(first, lock, guard.Event{Kind: guard.EventHandover})
	r.WaitEnd(waiting, lock, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true, Local: true})
	second := r.hold(t.Context())
	r.release(first)
	observe(t.Context(), r, guard.Lock{Name: "order", Key: "another"})
	r.wait(t.Context(), timedOut)
	r.wait(t.Context(), timedOut)
	r.release(second)

	passedOn, inTheWay := trace.SpanContextFromContext(first), trace.SpanContextFromContext(second)
	assert.Equal(t, [][]trace.SpanContext{{passedOn}, nil, {inTheWay}, {inTheWay}}, r.links())
	points := r.points(t)
	assert.Equal(t, one(attributes{"redlatch.lock.name": "order"}), points["redlatch.lock.handovers"])
	assert.Equal(t, none, points["redlatch.lock.active"])
}

// A hold that ended before a caller began to wait, or before Redis was asked, was not in the way. Of several holds, the
// last one is linked.
func TestLink_EndedHoldsAreNotLinked(t *testing.T) {
	r := newEnv()
	earlier := r.WaitStart(t.Context(), lock)
	r.release(r.hold(t.Context()))
	r.wait(t.Context(), afterAWait)
	last := r.hold(t.Context())
	later := r.WaitStart(t.Context(), lock)
	r.release(last)
	r.WaitEnd(later, lock, atOnce)
	r.WaitEnd(earlier, lock, afterAWait)
	assert.Equal(t, [][]trace.SpanContext{nil, nil, {trace.SpanContextFromContext(last)}}, r.links())
}

// The end of a hold is reported late: after that of the next one, and when a caller waits for the key anew. The hold in
// the way of that wait is linked to all the same.
func TestLink_EndsThatAreReportedLate(t *testing.T) {
	r := newEnv()
	first := r.hold(t.Context())
	r.release(r.hold(t.Context()))
	waiting := r.WaitStart(t.Context(), lock)
	r.release(first)
	third := r.hold(t.Context())
	r.WaitEnd(waiting, lock, afterAWait)
	r.release(third)
	assert.Equal(t, [][]trace.SpanContext{{trace.SpanContextFromContext(third)}}, r.links())
}
