package tracing_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

// order is the key of the tests' lock. The others are what a Guard tells an observer of that lock.
var (
	order      = guard.Key("order:42")
	lock       = guard.Lock{Name: "order", Key: "order:42"}
	held       = guard.Hold{Fence: 1, Depth: 1}
	givenBack  = guard.HoldResult{Hold: held, Outcome: guard.OutcomeReleased}
	atOnce     = guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1}
	afterAWait = guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1, Queued: true}
	timedOut   = guard.WaitResult{Outcome: guard.OutcomeTimeout, Queued: true, Err: guard.ErrBusy}

	errOwn     = errors.New("own")
	errRefused = errors.New("connection refused")
)

// env is an observer whose spans and metrics a test can look at.
type env struct {
	guard.Observer
	spans   *tracetest.SpanRecorder
	reader  *sdkmetric.ManualReader
	tracers *sdktrace.TracerProvider
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEnv(opts ...tracing.Option) *env {
	r := &env{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	r.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	r.Observer = tracing.New(append([]tracing.Option{tracing.WithTracerProvider(r.tracers), tracing.WithMeterProvider(meters)}, opts...)...)
	return r
}

func nothing(context.Context) error { return nil }

// observe makes the calls of a WithLock that finds its lock free.
func observe(ctx context.Context, o guard.Observer, l guard.Lock) {
	o.WaitEnd(o.WaitStart(ctx, l), l, atOnce)
	o.HoldEnd(o.HoldStart(ctx, l, held), l, givenBack)
}

// everything makes every metric have a value.
func everything(ctx context.Context, o guard.Observer, l guard.Lock) {
	observe(ctx, o, l)
	for kind := guard.EventRenewal; kind <= guard.EventNotKept; kind++ {
		o.Event(ctx, l, guard.Event{Kind: kind})
	}
}

// wait, hold and release make the calls of a Guard for the tests' lock.
func (r *env) wait(ctx context.Context, result guard.WaitResult) {
	r.WaitEnd(r.WaitStart(ctx, lock), lock, result)
}

func (r *env) hold(ctx context.Context) context.Context { return r.HoldStart(ctx, lock, held) }

func (r *env) release(holding context.Context) { r.HoldEnd(holding, lock, givenBack) }

// caller begins the span of a caller of a lock.
func (r *env) caller(ctx context.Context) (context.Context, trace.Span) {
	return r.tracers.Tracer("test").Start(ctx, "caller")
}

// bubble runs a test in virtual time, on a Guard named "order" whose store is in memory.
func bubble(t *testing.T, test func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store), opts ...tracing.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, s := newEnv(opts...), guardtest.NewStore()
		g, err := guard.NewWithStore(s, guard.Observe(r), guard.Name("order"))
		require.NoError(t, err)
		defer g.Close()
		test(t, r, g, s)
		assert.Len(t, r.spans.Ended(), len(r.spans.Started()), "spans that were never ended")
	})
}

// seen is what a test wants to know of a span.
type seen struct {
	Name       string
	Parent     trace.SpanID
	Status     codes.Code
	Attributes attributes
	Events     []string
}

type attributes map[attribute.Key]any

func attributesOf(all []attribute.KeyValue) attributes {
	out := attributes{}
	for _, kv := range all {
		out[kv.Key] = kv.Value.AsInterface()
	}
	return out
}

// seen returns the observer's spans, in the order in which they ended. It leaves out the fence, which grows with
// time, and whether the lock was handed over locally, which the Guard chooses.
func (r *env) seen(t *testing.T) []seen {
	t.Helper()
	var out []seen
	for _, span := range r.ended() {
		assert.Equal(t, trace.SpanKindInternal, span.SpanKind(), span.Name())
		assert.Equal(t, tracing.Version, span.InstrumentationScope().Version)
		assert.Equal(t, semconv.SchemaURL, span.InstrumentationScope().SchemaURL)
		s := seen{
			Name: span.Name(), Parent: span.Parent().SpanID(), Status: span.Status().Code,
			Attributes: attributesOf(span.Attributes()),
		}
		delete(s.Attributes, "redlatch.lock.fence")
		delete(s.Attributes, "redlatch.lock.local")
		for _, event := range span.Events() {
			s.Events = append(s.Events, event.Name)
		}
		out = append(out, s)
	}
	return out
}

// acquired and released are the spans of a lock that was free and given back.
func acquired(parent trace.SpanID) seen {
	return seen{Name: "acquire order", Parent: parent, Attributes: attributes{
		"redlatch.lock.name": "order", "redlatch.lock.outcome": "acquired", "redlatch.lock.queued": false,
	}}
}

func released(parent trace.SpanID) seen {
	return seen{Name: "hold order", Parent: parent, Attributes: attributes{
		"redlatch.lock.name": "order", "redlatch.lock.outcome": "released",
	}}
}

// metric returns those of the span's attributes that the metric has, too.
func (s seen) metric() attributes {
	out := maps.Clone(s.Attributes)
	maps.DeleteFunc(out, func(key attribute.Key, _ any) bool {
		return key != "redlatch.lock.name" && key != "redlatch.lock.outcome" && key != "error.type"
	})
	return out
}

// ended returns the observer's spans.
func (r *env) ended() []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(r.spans.Ended(), func(s sdktrace.ReadOnlySpan) bool {
		return s.InstrumentationScope().Name != tracing.ScopeName
	})
}

// named returns the observer's spans of a name.
func (r *env) named(name string) []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(r.ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name })
}

// the returns the observer's only span of a name.
func (r *env) the(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	spans := r.named(name)
	require.Len(t, spans, 1, name)
	return spans[0]
}

// links returns the spans to which each wait links.
func (r *env) links() (all [][]trace.SpanContext) {
	for _, span := range r.named("acquire order") {
		var of []trace.SpanContext
		for _, link := range span.Links() {
			of = append(of, link.SpanContext)
		}
		all = append(all, of)
	}
	return all
}

func (r *env) collect(t *testing.T) metricdata.ScopeMetrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name == tracing.ScopeName {
			assert.Equal(t, tracing.Version, scope.Scope.Version)
			assert.Equal(t, semconv.SchemaURL, scope.Scope.SchemaURL)
			return scope
		}
	}
	return metricdata.ScopeMetrics{}
}

// point is a data point: a sum's value, or how many values a histogram has.
type point struct {
	Attributes attributes
	Value      int64
}

// points returns the data points of each metric, without gauges.
func (r *env) points(t *testing.T) map[string][]point {
	t.Helper()
	out := map[string][]point{}
	for _, m := range r.collect(t).Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				out[m.Name] = append(out[m.Name], point{attributesOf(p.Attributes.ToSlice()), int64(p.Count)})
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				out[m.Name] = append(out[m.Name], point{attributesOf(p.Attributes.ToSlice()), p.Value})
			}
		}
	}
	return out
}

// one is the data points of a metric that has seen one thing.
func one(a attributes) []point { return []point{{a, 1}} }

// none is a level that is back where it was.
var none = []point{{attributes{"redlatch.lock.name": "order"}, 0}}
