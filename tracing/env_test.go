package tracing_test

import (
	"context"
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

var order = guard.Key("order:42")

// env is an observer whose spans and metrics a test can look at.
type env struct {
	guard.Observer
	spans   *tracetest.SpanRecorder
	reader  *sdkmetric.ManualReader
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEnv(opts ...tracing.Option) *env {
	r := &env{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	r.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	r.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	r.Observer = tracing.New(append(r.providers(), opts...)...)
	return r
}

func (r *env) providers() []tracing.Option {
	return []tracing.Option{tracing.WithTracerProvider(r.tracers), tracing.WithMeterProvider(r.meters)}
}

func nothing(context.Context) error { return nil }

// observe makes the calls of a WithLock that finds its lock free.
func observe(ctx context.Context, o guard.Observer, l guard.Lock) {
	o.WaitEnd(o.WaitStart(ctx, l), l, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	hold := guard.Hold{Fence: 1, Depth: 1}
	o.HoldEnd(o.HoldStart(ctx, l, hold), l, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
}

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
	Links      []trace.SpanID
}

type attributes map[attribute.Key]any

func attributesOf(all []attribute.KeyValue) attributes {
	out := attributes{}
	for _, kv := range all {
		out[kv.Key] = kv.Value.AsInterface()
	}
	return out
}

// seen returns the observer's spans, in the order in which they ended. The fence, which
// grows with time, is left out, and so is whether the lock was handed over locally, which
// is for the Guard to choose.
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
		for _, link := range span.Links() {
			s.Links = append(s.Links, link.SpanContext.SpanID())
		}
		out = append(out, s)
	}
	return out
}

func (r *env) ended() []sdktrace.ReadOnlySpan {
	var out []sdktrace.ReadOnlySpan
	for _, span := range r.spans.Ended() {
		if span.InstrumentationScope().Name == tracing.ScopeName {
			out = append(out, span)
		}
	}
	return out
}

// named returns the observer's spans of a name.
func (r *env) named(name string) []sdktrace.ReadOnlySpan {
	var out []sdktrace.ReadOnlySpan
	for _, span := range r.ended() {
		if span.Name() == name {
			out = append(out, span)
		}
	}
	return out
}

// the returns the observer's only span of a name.
func (r *env) the(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	spans := r.named(name)
	require.Len(t, spans, 1, name)
	return spans[0]
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

// points returns the data points of each metric, without the zeros with which counters begin and without gauges.
func (r *env) points(t *testing.T) map[string][]point {
	t.Helper()
	out := map[string][]point{}
	for _, m := range r.collect(t).Metrics {
		if data, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, p := range data.DataPoints {
				out[m.Name] = append(out[m.Name], point{attributesOf(p.Attributes.ToSlice()), int64(p.Count)})
			}
		}
		if data, ok := m.Data.(metricdata.Sum[int64]); ok && !data.IsMonotonic {
			out[m.Name] = sums(data)
		}
	}
	for name, points := range r.counters(t) {
		for _, p := range points {
			if p.Value > 0 {
				out[name] = append(out[name], p)
			}
		}
	}
	return out
}

// counters returns the data points of each counter.
func (r *env) counters(t *testing.T) map[string][]point {
	t.Helper()
	out := map[string][]point{}
	for _, m := range r.collect(t).Metrics {
		if data, ok := m.Data.(metricdata.Sum[int64]); ok && data.IsMonotonic {
			out[m.Name] = sums(data)
		}
	}
	return out
}

func sums(data metricdata.Sum[int64]) (points []point) {
	for _, p := range data.DataPoints {
		points = append(points, point{attributesOf(p.Attributes.ToSlice()), p.Value})
	}
	return points
}

// one is the data points of a metric that has seen one thing.
func one(a attributes) []point { return []point{{a, 1}} }

// none is a level that is back where it was.
var none = []point{{attributes{"redlatch.lock.name": "order"}, 0}}

// metric returns those of the span's attributes that the metric has, too.
func (s seen) metric() attributes {
	out := attributes{}
	for key, value := range s.Attributes {
		if key == "redlatch.lock.name" || key == "redlatch.lock.outcome" || key == "error.type" {
			out[key] = value
		}
	}
	return out
}
