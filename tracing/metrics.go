package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// The bounds of the buckets, in seconds. Without them the SDK takes bounds that fit
// milliseconds, and all waits end up in one bucket.
var (
	waitBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 2, 5, 10, 20, 30} // 2 and 20: the default waits of adapters
	holdBounds = []float64{.001, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
)

type metrics struct {
	wait       metric.Float64Histogram
	hold       metric.Float64Histogram
	active     metric.Int64UpDownCounter
	waiting    metric.Int64UpDownCounter
	losses     metric.Int64Counter
	renewals   metric.Int64Counter
	handovers  metric.Int64Counter
	failedOpen metric.Int64Counter
	recorded   metric.Int64Counter
}

func newMetrics(p metric.MeterProvider, names *labelCache) metrics {
	m := p.Meter(ScopeName, metric.WithInstrumentationVersion(Version), metric.WithSchemaURL(semconv.SchemaURL))
	_, err := m.Float64ObservableGauge("redlatch.lock.wait.oldest", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest of the callers has waited that wait now; 0 if none does."),
		metric.WithFloat64Callback(func(_ context.Context, out metric.Float64Observer) error {
			for _, l := range names.all() {
				out.Observe(l.line.longest().Seconds(), l.oldest...)
			}
			return nil
		}))
	if err != nil {
		otel.Handle(err)
	}
	histogram := made[metric.Float64Histogram](noop.Float64Histogram{})
	level := made[metric.Int64UpDownCounter](noop.Int64UpDownCounter{})
	counter := made[metric.Int64Counter](noop.Int64Counter{})
	return metrics{
		wait: histogram(m.Float64Histogram("redlatch.lock.wait.duration", metric.WithUnit("s"),
			metric.WithDescription("How long callers waited for a lock, successfully or not."),
			metric.WithExplicitBucketBoundaries(waitBounds...))),
		hold: histogram(m.Float64Histogram("redlatch.lock.hold.duration", metric.WithUnit("s"),
			metric.WithDescription("How long locks were held."),
			metric.WithExplicitBucketBoundaries(holdBounds...))),
		active: level(m.Int64UpDownCounter("redlatch.lock.active", metric.WithUnit("{lock}"),
			metric.WithDescription("Locks held now."))),
		waiting: level(m.Int64UpDownCounter("redlatch.lock.waiting", metric.WithUnit("{caller}"),
			metric.WithDescription("Callers that wait for a lock now."))),
		losses: counter(m.Int64Counter("redlatch.lock.losses", metric.WithUnit("{hold}"),
			metric.WithDescription("Holds that ended under their work."))),
		renewals: counter(m.Int64Counter("redlatch.lock.renewals", metric.WithUnit("{renewal}"),
			metric.WithDescription("Renewals of leases; with error.type, those that failed and may be repeated."))),
		handovers: counter(m.Int64Counter("redlatch.lock.handovers", metric.WithUnit("{handover}"),
			metric.WithDescription("Locks handed to the next waiter."))),
		failedOpen: counter(m.Int64Counter("redlatch.lock.failed_open", metric.WithUnit("{call}"),
			metric.WithDescription("Calls that ran without a lock, as FailOpen allows."))),
		recorded: counter(m.Int64Counter("redlatch.once.recorded", metric.WithUnit("{call}"),
			metric.WithDescription("Results of Once that were replayed; with error.type, calls that were refused, and results that were not kept."))),
	}
}

// begin records zeros for a name: Prometheus sees the first increase of a series only if it has seen the
// series before.
func (m *metrics) begin(l *labels) {
	ctx := context.Background()
	for _, born := range []struct {
		counter metric.Int64Counter
		types   []string // of error
	}{
		{m.losses, []string{"lock_lost", "lock_max_hold", "lock_revoked", typeClosed}},
		{m.renewals, []string{"", typeStoreUnavailable}},
		{m.handovers, []string{""}},
		{m.failedOpen, []string{typeStoreUnavailable}},
		{m.recorded, []string{"", "idempotency_key_reused", "idempotency_outcome_unknown", "idempotency_result_not_kept"}},
	} {
		for _, errorType := range born.types {
			born.counter.Add(ctx, 0, l.counted(errorType)...)
		}
	}
}

// enabled reports whether anybody gets to see how long locks are waited for or held, or how
// many there are.
func (m *metrics) enabled(ctx context.Context) bool {
	return m.wait.Enabled(ctx) || m.hold.Enabled(ctx) || m.active.Enabled(ctx) || m.waiting.Enabled(ctx)
}

// made returns the instrument of a Meter, or an instrument that does nothing if the Meter failed.
func made[T any](nothing T) func(instrument T, err error) T {
	return func(instrument T, err error) T {
		if err != nil {
			otel.Handle(err)
		}
		if any(instrument) == nil {
			return nothing
		}
		return instrument
	}
}
