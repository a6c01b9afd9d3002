package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// The bounds of the buckets, in seconds. Without them the SDK takes bounds that fit
// milliseconds, and all waits end up in one bucket.
var (
	waitBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30}
	holdBounds = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
)

type metrics struct {
	wait       metric.Float64Histogram
	hold       metric.Float64Histogram
	active     metric.Int64UpDownCounter
	waiting    metric.Int64UpDownCounter
	renewals   metric.Int64Counter
	handovers  metric.Int64Counter
	failedOpen metric.Int64Counter
	recorded   metric.Int64Counter
}

func newMetrics(p metric.MeterProvider) metrics {
	m := p.Meter(ScopeName, metric.WithInstrumentationVersion(Version))
	histogram := made[metric.Float64Histogram](noop.Float64Histogram{})
	level := made[metric.Int64UpDownCounter](noop.Int64UpDownCounter{})
	counter := made[metric.Int64Counter](noop.Int64Counter{})
	return metrics{
		wait: histogram(m.Float64Histogram("guard.lock.wait.duration", metric.WithUnit("s"),
			metric.WithDescription("How long callers waited for a lock, successfully or not."),
			metric.WithExplicitBucketBoundaries(waitBounds...))),
		hold: histogram(m.Float64Histogram("guard.lock.hold.duration", metric.WithUnit("s"),
			metric.WithDescription("How long locks were held."),
			metric.WithExplicitBucketBoundaries(holdBounds...))),
		active: level(m.Int64UpDownCounter("guard.lock.active", metric.WithUnit("{lock}"),
			metric.WithDescription("Locks held now."))),
		waiting: level(m.Int64UpDownCounter("guard.lock.waiting", metric.WithUnit("{caller}"),
			metric.WithDescription("Callers that wait for a lock now."))),
		renewals: counter(m.Int64Counter("guard.lock.renewals", metric.WithUnit("{renewal}"),
			metric.WithDescription("Renewals of leases; with error.type, those that failed and may be repeated."))),
		handovers: counter(m.Int64Counter("guard.lock.handovers", metric.WithUnit("{handover}"),
			metric.WithDescription("Locks handed to the next waiter."))),
		failedOpen: counter(m.Int64Counter("guard.lock.failed_open", metric.WithUnit("{call}"),
			metric.WithDescription("Calls that ran without a lock, as FailOpen allows."))),
		recorded: counter(m.Int64Counter("guard.once.recorded", metric.WithUnit("{call}"),
			metric.WithDescription("Results of Once that were replayed; with error.type, calls that were refused, and results that were not kept."))),
	}
}

// enabled says whether anybody gets to see how long locks are waited for or held, or how
// many there are.
func (m *metrics) enabled(ctx context.Context) bool {
	return m.wait.Enabled(ctx) || m.hold.Enabled(ctx) || m.active.Enabled(ctx) || m.waiting.Enabled(ctx)
}

// made gives the instrument that a Meter made, or if there is none one that does nothing.
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
