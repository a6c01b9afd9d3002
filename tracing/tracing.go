package tracing

import (
	"context"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/version"
)

// ScopeName is the instrumentation scope of the spans and metrics.
const ScopeName = "github.com/redlatch/redlatch/tracing"

// Version is the version of the instrumentation scope.
const Version = version.Number

// observer implements guard.Observer.
type observer struct {
	config
	tracer     trace.Tracer
	metrics    metrics
	labels     labelCache
	blockers   blockers
	waitedKey  waitedKey  // of this observer's wait in a context
	holdingKey holdingKey // of this observer's innermost hold in a context
}

// New makes an Observer that reports to OpenTelemetry. Give it to a Guard with
// guard.Observe. It may be called from many goroutines, and by several Guards if no two
// of them lock the same keys.
//
// Errors of making instruments go to otel.Handle, and what could not be
// made is left out.
func New(opts ...Option) guard.Observer {
	o := &observer{config: newConfig(opts), labels: labelCache{known: make(map[labelID]*labels)}}
	o.tracer = o.tracerProvider.Tracer(ScopeName, trace.WithInstrumentationVersion(Version), trace.WithSchemaURL(semconv.SchemaURL))
	o.metrics = newMetrics(o.meterProvider, &o.labels)
	o.labels.begin = o.metrics.begin
	o.waitedKey, o.holdingKey = waitedKey{o}, holdingKey{o}
	return o
}

// unreported reports whether neither spans nor metrics go anywhere, as where no SDK is
// configured: then there is nothing to remember of a lock. A Tracer that does nothing
// gives a span with the caller's own context.
func (o *observer) unreported(ctx context.Context, span trace.Span) bool {
	return !span.IsRecording() && !o.metrics.enabled(ctx) &&
		span.SpanContext().Equal(trace.SpanContextFromContext(ctx))
}
