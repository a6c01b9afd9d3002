package tracing_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

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
				assert.Equal(t, true, got["redlatch.lock.queued"])
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

// Two calls of the same caller wait for each other, but not for the caller.
func TestLink_OwnCallerIsNotLinked(t *testing.T) {
	t.Parallel()
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
	g := guardtest.NewMemoryGuard(t)
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	const room = 256 - len(" traceparent=") - len(parent)
	for text, want := range map[string]int{
		"":                                     len("traceparent=") + len(parent),
		strings.Repeat("x", room):              256,
		strings.Repeat("x", room+1):            room + 1,
		strings.Repeat("x", 256):               256,
		strings.Repeat("x", room-1) + "\u00e9": room + 1,
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
	_, err := g.Acquire(ctx, order, tracing.Metadata(ctx, strings.Repeat("x", 256+1)))
	assert.ErrorContains(t, err, "Metadata", "a text that is too long stays an error")
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

// recordOnly records spans that are not sampled.
type recordOnly struct{ sdktrace.Sampler }

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}

// A span that is recorded and not sampled is not exported: a link to it would lead nowhere.
func TestSampled_HoldsThatAreNotSampledAreNotLinked(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	r := newEnv(tracing.WithTracerProvider(sdktrace.NewTracerProvider(
		sdktrace.WithSampler(recordOnly{sdktrace.AlwaysSample()}), sdktrace.WithSpanProcessor(spans))))
	r.HoldStart(t.Context(), lock, guard.Hold{Depth: 1})
	r.wait(t.Context(), guard.WaitResult{Outcome: guard.OutcomeTimeout, Queued: true, Err: guard.ErrBusy})
	require.Len(t, spans.Ended(), 1)
	assert.Empty(t, spans.Ended()[0].Links())
}

// Where nothing is sampled and nothing measured, the work still runs under a span that is not sampled: what it
// begins is not sampled, either.
func TestSampled_WorkIsSampledAsItsHold(t *testing.T) {
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
// key anew. The hold in the way of that wait is linked to all the same.
func TestBlocker_EndsThatAreReportedLateAreLinked(t *testing.T) {
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
