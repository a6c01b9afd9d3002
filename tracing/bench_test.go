package tracing_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/tracing"
)

func nothing(context.Context) error { return nil }

// What a WithLock calls of its observer, without the lock: what observing adds.
func BenchmarkObserver(b *testing.B) {
	for _, c := range observed() {
		b.Run(c.name, func(b *testing.B) {
			o := c.observer
			if o == nil {
				b.Skip("no observer")
			}
			l := guard.Lock{Name: "order", Key: "order:42"}
			b.ReportAllocs()
			for b.Loop() {
				observe(b.Context(), o, l)
			}
		})
	}
}

type observation struct {
	name     string
	observer guard.Observer
}

func observed() []observation {
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	sampled := sdktrace.NewTracerProvider()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	return []observation{
		{"observer=none", nil},
		{"observer=nop", guard.NopObserver{}},
		{"observer=tracing,sdk=none", tracing.New()},
		{"observer=tracing,sdk=noop", tracing.New(
			tracing.WithTracerProvider(tracenoop.NewTracerProvider()), tracing.WithMeterProvider(noop.NewMeterProvider()))},
		{"observer=tracing,sdk=metrics", tracing.New(tracing.WithMeterProvider(meters))},
		{"observer=tracing,sdk=unsampled", tracing.New(
			tracing.WithTracerProvider(unsampled), tracing.WithMeterProvider(meters))},
		{"observer=tracing,sdk=sampled", tracing.New(
			tracing.WithTracerProvider(sampled), tracing.WithMeterProvider(meters))},
	}
}

// observe makes the calls of a WithLock that finds its lock free.
func observe(ctx context.Context, o guard.Observer, l guard.Lock) {
	o.WaitEnd(o.WaitStart(ctx, l), l, guard.WaitResult{Outcome: guard.OutcomeAcquired, Depth: 1})
	hold := guard.Hold{Fence: 1, Depth: 1}
	o.HoldEnd(o.HoldStart(ctx, l, hold), l, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
}
