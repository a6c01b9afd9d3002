package tracing_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/tracing"
)

var noTraces = tracenoop.NewTracerProvider()

func TestOption_TheKeyIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts []tracing.Option
		want attributes
	}{
		"default": {nil, attributes{}},
		"key":     {[]tracing.Option{tracing.WithKey()}, attributes{"guard.lock.key": "order:42"}},
		"hash":    {[]tracing.Option{tracing.WithKeyHash()}, attributes{"guard.lock.key_hash": "da68380de022bac7"}},
		"both": {
			[]tracing.Option{tracing.WithKeyHash(), tracing.WithKey()},
			attributes{"guard.lock.key": "order:42", "guard.lock.key_hash": "da68380de022bac7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newEnv(test.opts...)
			observe(t.Context(), r, lock)
			for _, span := range r.ended() {
				got := attributesOf(span.Attributes())
				for key := range got {
					if key != "guard.lock.key" && key != "guard.lock.key_hash" {
						delete(got, key)
					}
				}
				assert.Equal(t, test.want, got, span.Name())
			}
		})
	}
}

type tenantKey struct{}

func TestOption_OwnAttributes(t *testing.T) {
	t.Parallel()
	r := newEnv(
		tracing.WithAttributes(func(ctx context.Context, l guard.Lock) []attribute.KeyValue {
			tenant, _ := ctx.Value(tenantKey{}).(string)
			return []attribute.KeyValue{attribute.String("tenant", tenant+"/"+l.Key)}
		}),
		tracing.WithAttributes(func(context.Context, guard.Lock) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.Bool("shop", true)}
		}),
	)
	everything(context.WithValue(t.Context(), tenantKey{}, "acme"), r, lock)
	spans := r.ended()
	assert.Len(t, spans, 2)
	for _, span := range spans {
		got := attributesOf(span.Attributes())
		assert.Equal(t, "acme/order:42", got["tenant"])
		assert.Equal(t, true, got["shop"])
	}
	for name, points := range r.points(t) {
		for _, p := range points {
			assert.NotContains(t, p.Attributes, attribute.Key("tenant"), name)
		}
	}
}

func TestOption_NothingIsAskedForSpansThatNobodySees(t *testing.T) {
	t.Parallel()
	asked := tracing.WithAttributes(func(context.Context, guard.Lock) []attribute.KeyValue { panic("asked") })
	observe(t.Context(), tracing.New(tracing.WithTracerProvider(noTraces), asked), lock)
}

func TestOption_NilOptionsAreIgnored(t *testing.T) {
	t.Parallel()
	r := newEnv(nil, tracing.WithTracerProvider(nil), tracing.WithMeterProvider(nil), tracing.WithAttributes(nil))
	everything(t.Context(), r, lock)
	assert.Len(t, r.seen(t), 2)
	assert.Len(t, r.points(t), 8)
}

// Where no SDK is configured the work's context is the caller's own.
func TestOption_WithoutAnSDK(t *testing.T) {
	t.Parallel()
	o := tracing.New()
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	hold := guard.Hold{Fence: 1, Depth: 1}
	work := o.HoldStart(ctx, lock, hold)
	assert.Same(t, caller, trace.SpanFromContext(work))
	everything(work, o, lock)
	o.HoldEnd(work, lock, guard.HoldResult{Hold: hold, Outcome: guard.OutcomeReleased})
}

// What a WithLock costs more for an observer whose program has no SDK.
func TestOption_AllocationsWithoutAnSDK(t *testing.T) {
	ctx, nop, o := t.Context(), guard.NopObserver{}, tracing.New()
	assert.Zero(t, testing.AllocsPerRun(1000, func() { observe(ctx, nop, lock) }))
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { observe(ctx, o, lock) }), 6.0)
}

// Whatever an observer is told, it is not what makes work fail.
func TestOption_ZeroValues(t *testing.T) {
	t.Parallel()
	var noContext context.Context
	for name, o := range map[string]guard.Observer{
		"SDK": newEnv(), "no options": tracing.New(), "nil options": tracing.New(nil, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := o.WaitStart(t.Context(), guard.Lock{})
			o.WaitEnd(ctx, guard.Lock{}, guard.WaitResult{})
			ctx = o.HoldStart(t.Context(), guard.Lock{}, guard.Hold{})
			o.Event(ctx, guard.Lock{}, guard.Event{})
			o.HoldEnd(ctx, guard.Lock{}, guard.HoldResult{})
			o.HoldEnd(ctx, guard.Lock{}, guard.HoldResult{})
		})
	}
	assert.NoError(t, guard.CheckOptions(tracing.Metadata(noContext, "")))
}
