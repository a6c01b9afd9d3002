package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
)

// Option configures New. A nil Option is ignored.
type Option interface{ apply(*config) }

type config struct {
	tracerProvider trace.TracerProvider
	meterProvider  metric.MeterProvider
	withKey        bool
	withKeyHash    bool
	withoutLinks   bool
	attributes     []func(context.Context, guard.Lock) []attribute.KeyValue
}

func newConfig(opts []Option) config {
	c := config{tracerProvider: otel.GetTracerProvider(), meterProvider: otel.GetMeterProvider()}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(&c)
		}
	}
	return c
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

// WithTracerProvider sets where spans go. The default, also for nil, is the global
// provider, also if that is set later.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(c *config) {
		if p != nil {
			c.tracerProvider = p
		}
	})
}

// WithMeterProvider sets where metrics go. The default, also for nil, is the global
// provider, also if that is set later.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(c *config) {
		if p != nil {
			c.meterProvider = p
		}
	})
}

// WithKey puts the key on the spans, as redlatch.lock.key. It is off by default, because
// keys tend to hold what names a person or an order. No metric ever has it.
func WithKey() Option {
	return option(func(c *config) { c.withKey = true })
}

// WithKeyHash puts the first 16 hex digits of the key's SHA-256 on the spans, as
// redlatch.lock.key_hash: spans of one key can be found by it. It hides the key, but not
// from a reader that tries all likely keys.
func WithKeyHash() Option {
	return option(func(c *config) { c.withKeyHash = true })
}

// WithoutLinks switches off that the span of a wait links to the hold that it waited
// for.
func WithoutLinks() Option {
	return option(func(c *config) { c.withoutLinks = true })
}

// WithAttributes adds what fn returns to both spans of a lock. fn gets the caller's
// context, is called for spans that are recorded only, from many goroutines, and must not
// block. Metrics do not get these attributes. Given more than once, all of them apply; a
// nil fn is ignored.
func WithAttributes(fn func(ctx context.Context, l guard.Lock) []attribute.KeyValue) Option {
	return option(func(c *config) {
		if fn != nil {
			c.attributes = append(c.attributes, fn)
		}
	})
}
