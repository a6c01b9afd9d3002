package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/tracing"
)

func TestMetric_Instruments(t *testing.T) {
	r := newEnv()
	everything(t.Context(), r, lock)
	units, bounds := map[string]string{}, map[string][]float64{}
	for _, m := range r.collect(t).Metrics {
		units[m.Name] = m.Unit
		assert.NotEmpty(t, m.Description, m.Name)
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			bounds[m.Name] = data.DataPoints[0].Bounds
		case metricdata.Sum[int64]:
			assert.Equal(t, m.Unit != "{lock}" && m.Unit != "{caller}", data.IsMonotonic, m.Name)
		}
	}
	assert.Equal(t, map[string]string{
		"redlatch.lock.wait.oldest": "s", "redlatch.lock.losses": "{hold}",
		"redlatch.lock.wait.duration": "s", "redlatch.lock.hold.duration": "s",
		"redlatch.lock.active": "{lock}", "redlatch.lock.waiting": "{caller}",
		"redlatch.lock.renewals": "{renewal}", "redlatch.lock.handovers": "{handover}", "redlatch.lock.failed_open": "{call}",
		"redlatch.once.recorded": "{call}",
	}, units)
	assert.Equal(t, map[string][]float64{
		"redlatch.lock.wait.duration": {.001, .005, .01, .05, .1, .5, 1, 2, 5, 10, 20, 30},
		"redlatch.lock.hold.duration": {.001, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300},
	}, bounds)
}

// Prometheus sees the first increase of a counter only if it has seen the counter before.
func TestMetric_CountersBeginWithZero(t *testing.T) {
	r := newEnv()
	r.wait(t.Context(), atOnce)
	zeros := func(types ...string) (points []point) {
		for _, errorType := range types {
			a := attributes{"redlatch.lock.name": "order"}
			if errorType != "" {
				a["error.type"] = errorType
			}
			points = append(points, point{a, 0})
		}
		return points
	}
	want := map[string][]point{
		"redlatch.lock.losses":      zeros("lock_lost", "lock_max_hold", "lock_revoked", "shutting_down"),
		"redlatch.lock.renewals":    zeros("", "lock_store_unavailable"),
		"redlatch.lock.handovers":   zeros(""),
		"redlatch.lock.failed_open": zeros("lock_store_unavailable"),
		"redlatch.once.recorded":    zeros("", "idempotency_key_reused", "idempotency_outcome_unknown", "idempotency_result_not_kept"),
	}
	got := r.points(t)
	for name, points := range want {
		assert.ElementsMatch(t, points, got[name], name)
	}

	// The errors of a Guard count there, and begin no other series.
	for _, e := range []guard.Event{
		{Kind: guard.EventLoss, Err: &guard.LostError{Cause: errRefused}},
		{Kind: guard.EventLoss, Err: &guard.LostError{Cause: guard.ErrMaxHold}},
		{Kind: guard.EventLoss, Err: &guard.LostError{Cause: guard.ErrRevoked}},
		{Kind: guard.EventLoss, Err: &guard.LostError{Cause: guard.ErrClosed}},
		{Kind: guard.EventRenewal},
		{Kind: guard.EventStoreFailure, Op: "renew", Err: errRefused},
		{Kind: guard.EventHandover},
		{Kind: guard.EventFailedOpen, Err: &guard.StoreError{Err: errRefused}},
		{Kind: guard.EventReplayed},
		{Kind: guard.EventOtherInput, Err: &guard.OnceError{Err: guard.ErrOtherInput}},
		{Kind: guard.EventUnknownOutcome, Err: &guard.OnceError{Err: guard.ErrUnknownOutcome}},
		{Kind: guard.EventNotKept, Err: &guard.OnceError{Err: guard.ErrNotKept}},
	} {
		r.Event(t.Context(), lock, e)
	}
	got = r.points(t)
	for name, points := range want {
		for i := range points {
			points[i].Value = 1
		}
		assert.ElementsMatch(t, points, got[name], name)
	}
}

// oldest returns the gauge of the oldest waits, by name.
func (r *env) oldest(t *testing.T) map[any]float64 {
	t.Helper()
	out := map[any]float64{}
	for _, m := range r.collect(t).Metrics {
		if data, ok := m.Data.(metricdata.Gauge[float64]); ok {
			assert.Equal(t, "redlatch.lock.wait.oldest", m.Name)
			for _, p := range data.DataPoints {
				out[attributesOf(p.Attributes.ToSlice())["redlatch.lock.name"]] = p.Value
			}
		}
	}
	return out
}

func TestMetric_OldestWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		lease, err := g.Acquire(t.Context(), order)
		require.NoError(t, err)
		require.NoError(t, g.WithLock(lease.Context(), order, nothing), "a re-entry does not wait")
		assert.Equal(t, map[any]float64{"order": 0}, r.oldest(t))
		var waits sync.WaitGroup
		giveUp := make([]context.CancelFunc, 3)
		for i := range giveUp {
			var ctx context.Context
			ctx, giveUp[i] = context.WithCancel(t.Context())
			waits.Go(func() { assert.ErrorIs(t, g.WithLock(ctx, order, nothing), context.Canceled) })
			time.Sleep(time.Second)
		}
		waits.Go(func() {
			assert.ErrorIs(t, g.WithLock(t.Context(), guard.Key("order:42"), nothing, guard.Name("refund"), guard.Wait(time.Minute)), guard.ErrBusy)
		})
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, map[any]float64{"order": 3.5, "refund": 0.5}, r.oldest(t))
		for _, step := range []struct {
			leaves int
			oldest float64
		}{{1, 3.5}, {0, 1.5}, {2, 0}} {
			giveUp[step.leaves]()
			synctest.Wait()
			assert.Equal(t, map[any]float64{"order": step.oldest, "refund": 0.5}, r.oldest(t))
		}
		waits.Wait()
		assert.Equal(t, map[any]float64{"order": 0, "refund": 0}, r.oldest(t))
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestMetric_NamesAfterTheFirstThousandAreOther(t *testing.T) {
	r := newEnv()
	for i := range 1003 {
		observe(t.Context(), r, guard.Lock{Name: fmt.Sprintf("order-%d", i), Key: "order:42"})
	}
	waits := map[any]int64{}
	for _, p := range r.points(t)["redlatch.lock.wait.duration"] {
		waits[p.Attributes["redlatch.lock.name"]] = p.Value
	}
	assert.Len(t, waits, 1001)
	assert.Equal(t, int64(1), waits["order-999"])
	assert.Equal(t, int64(3), waits["other"])
}

// A key without a format has no name, and telemetry shows no part of the key instead.
func TestSpan_LockWithoutANameHasNone(t *testing.T) {
	r := newEnv()
	observe(t.Context(), r, guard.Lock{Key: "iban:DE02120300000000202051"})
	for _, name := range []string{"acquire", "hold"} {
		require.Len(t, r.named(name), 1)
		assert.NotContains(t, attributesOf(r.named(name)[0].Attributes()), attribute.Key("redlatch.lock.name"))
	}
	assert.Equal(t, one(attributes{"redlatch.lock.outcome": "released"}), r.points(t)["redlatch.lock.hold.duration"])
}

// What an error of the store says may name keys: spans have its class alone.
func TestSpan_ErrorTextsAreNotRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		failure := errors.New("WRONGTYPE at redlatch:{secret}")
		s.Fail(failure)
		ctx, caller := r.caller(t.Context())
		require.ErrorIs(t, g.WithLock(ctx, order, nothing), guard.ErrStore)
		require.NoError(t, g.WithLock(ctx, order, nothing, guard.FailOpen()))
		s.Fail(nil)
		require.ErrorIs(t, g.WithLock(ctx, order, func(ctx context.Context) error {
			s.Fail(failure)
			<-ctx.Done()
			return nil
		}), guard.ErrLost)
		caller.End()
		for _, span := range r.spans.Ended() {
			assert.NotContains(t, fmt.Sprint(span.Status(), span.Attributes(), span.Events()), "secret")
		}
		assert.Equal(t, "lock_store_unavailable", r.ended()[0].Status().Description)
		assert.Equal(t, "lock_lost", r.the(t, "hold order").Status().Description)
	})
}

// A point of a histogram leads to the span of a call that made it, also where another
// observer has spans of its own for the same lock.
func TestMetric_Exemplars(t *testing.T) {
	outer, inner := newEnv(), newEnv()
	g := guardtest.NewMemoryGuard(t, guard.Observe(outer), guard.Observe(inner), guard.Name("order"))
	require.NoError(t, g.WithLock(t.Context(), order, nothing))
	for _, r := range []*env{outer, inner} {
		spans := map[string]string{
			"redlatch.lock.wait.duration": "acquire order", "redlatch.lock.hold.duration": "hold order",
		}
		for _, m := range r.collect(t).Metrics {
			data, ok := m.Data.(metricdata.Histogram[float64])
			if !ok {
				continue
			}
			require.Len(t, data.DataPoints[0].Exemplars, 1, m.Name)
			id := r.the(t, spans[m.Name]).SpanContext().SpanID()
			assert.Equal(t, id[:], data.DataPoints[0].Exemplars[0].SpanID, m.Name)
			delete(spans, m.Name)
		}
		assert.Empty(t, spans)
	}
}

// brokenMeters makes no counters and no gauges.
type brokenMeters struct{ noop.MeterProvider }

type brokenMeter struct{ noop.Meter }

func (brokenMeters) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

func (brokenMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return nil, errOwn
}

func (brokenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errOwn
}

// It changes the global error handler: nothing else may run beside it.
func TestMetric_InstrumentsThatFailAreHandled(t *testing.T) {
	var handled []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	r := newEnv(tracing.WithMeterProvider(brokenMeters{}))
	everything(t.Context(), r, lock)
	assert.Equal(t, slices.Repeat([]error{errOwn}, 6), handled)
	assert.Len(t, r.seen(t), 2, "spans do without")
}

// What one instrument measures is measured, whichever others a View drops.
func TestMetric_InstrumentsAreIndependent(t *testing.T) {
	for _, name := range []string{"redlatch.lock.wait.duration", "redlatch.lock.hold.duration", "redlatch.lock.active", "redlatch.lock.waiting"} {
		r := &env{reader: sdkmetric.NewManualReader()}
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader), sdkmetric.WithView(func(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
			return sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}}, i.Name != name
		}))
		observe(t.Context(), tracing.New(tracing.WithTracerProvider(tracenoop.NewTracerProvider()), tracing.WithMeterProvider(meters)), lock)
		points := r.points(t)
		assert.Len(t, points, 1)
		assert.Contains(t, points, name)
	}
}

func TestOption_KeyIsRecordedIfAskedFor(t *testing.T) {
	const hash = "da68380de022bac7"
	for _, c := range []struct {
		opts      []tracing.Option
		key, hash any
	}{
		{nil, nil, nil},
		{[]tracing.Option{tracing.WithKey()}, "order:42", nil},
		{[]tracing.Option{tracing.WithKeyHash()}, nil, hash},
		{[]tracing.Option{tracing.WithKeyHash(), tracing.WithKey()}, "order:42", hash},
	} {
		r := newEnv(c.opts...)
		everything(t.Context(), r, lock)
		for _, span := range r.ended() {
			got := attributesOf(span.Attributes())
			assert.Equal(t, []any{c.key, c.hash}, []any{got["redlatch.lock.key"], got["redlatch.lock.key_hash"]}, span.Name())
		}
		points := fmt.Sprint(r.points(t))
		assert.NotContains(t, points, "order:42", "a metric has as many series as there are names")
		assert.NotContains(t, points, hash)
	}
}

type tenantKey struct{}

func TestOption_OwnAttributes(t *testing.T) {
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
	assert.NotContains(t, fmt.Sprint(r.points(t)), "tenant")
}

func TestOption_NilOptionsAreIgnored(t *testing.T) {
	r := newEnv(nil, tracing.WithTracerProvider(nil), tracing.WithMeterProvider(nil), tracing.WithAttributes(nil))
	everything(t.Context(), r, lock)
	assert.Len(t, r.seen(t), 2)
	assert.Len(t, r.points(t), 9)
}

// Where no SDK is configured the work's context is the caller's own.
func TestOption_WithoutAnSDK(t *testing.T) {
	o := tracing.New()
	ctx, caller := newEnv().caller(t.Context())
	defer caller.End()
	work := o.HoldStart(ctx, lock, held)
	assert.Same(t, caller, trace.SpanFromContext(work))
	everything(work, o, lock)
	o.Event(work, lock, guard.Event{Kind: guard.EventReleaseFailure, Op: "release", Err: &guard.StoreError{Op: "release", Err: errRefused}})
	o.HoldEnd(work, lock, givenBack)
}
