package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// A hold that ends before its work does.
func TestHold_EndBeforeItsWorkHasItsOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		end       func(g *guard.Guard, s *guardtest.Store)
		outcome   string
		errorType string
	}{
		"lost":     {func(_ *guard.Guard, s *guardtest.Store) { s.Drop("order:42") }, "lost", "lock_lost"},
		"max hold": {func(*guard.Guard, *guardtest.Store) {}, "max_hold", "lock_max_hold"},
		"closed":   {func(g *guard.Guard, _ *guardtest.Store) { go func() { _ = g.Close() }() }, "closed", "lock_lost"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
				ctx, caller := r.caller(t.Context())
				begun := time.Now()
				err := g.WithLock(ctx, order, func(ctx context.Context) error {
					test.end(g, s)
					<-ctx.Done()
					synctest.Wait()
					begun = time.Now()
					time.Sleep(time.Hour)
					return nil
				}, guard.MaxHold(time.Minute))
				require.ErrorIs(t, err, guard.ErrLost)
				caller.End()

				want := released(caller.SpanContext().SpanID())
				want.Attributes["redlatch.lock.outcome"] = test.outcome
				want.Attributes["error.type"] = test.errorType
				want.Status, want.Events = codes.Error, []string{"redlatch.lock.loss"}
				assert.Equal(t, want, r.seen(t)[1])
				assert.Equal(t, begun, r.the(t, "hold order").EndTime(), "the span ends with the hold, not with the work")

				points := r.points(t)
				assert.Equal(t, one(want.metric()), points["redlatch.lock.hold.duration"])
				assert.Equal(t, none, points["redlatch.lock.active"])
			})
		})
	}
}

func TestHold_FailedRenewalsAreEvents(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		require.NoError(t, g.WithLock(t.Context(), order, func(context.Context) error {
			time.Sleep(11 * time.Second) // a renewal every 10 s
			s.Fail(errRefused)
			time.Sleep(9500 * time.Millisecond)
			s.Fail(nil)
			time.Sleep(5 * time.Second)
			return nil
		}, guard.TTL(30*time.Second)))

		hold := r.seen(t)[1]
		assert.Equal(t, codes.Unset, hold.Status)
		failed := int64(len(hold.Events))
		assert.Positive(t, failed)
		for _, event := range r.the(t, "hold order").Events() {
			assert.Equal(t, "redlatch.lock.renewal_failure", event.Name)
			assert.Equal(t, attributes{"error.type": "lock_store_unavailable"}, attributesOf(event.Attributes))
		}
		assert.ElementsMatch(t, []point{
			{attributes{"redlatch.lock.name": "order"}, 2},
			{attributes{"redlatch.lock.name": "order", "error.type": "lock_store_unavailable"}, failed},
		}, r.points(t)["redlatch.lock.renewals"])
	})
}

func TestReentry_MakesNoSpan(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		require.NoError(t, g.WithLock(t.Context(), order, func(ctx context.Context) error {
			ctx, own := r.tracers.Tracer("test").Start(ctx, "charge")
			defer own.End()
			return g.WithLock(ctx, order, func(ctx context.Context) error {
				assert.Equal(t, one(attributes{"redlatch.lock.name": "order"}), r.points(t)["redlatch.lock.active"])
				r.WaitStart(ctx, lock)
				assert.Equal(t, none, r.points(t)["redlatch.lock.waiting"], "a re-entry does not wait")
				return g.WithLock(ctx, order, nothing)
			})
		}))
		waited, hold := acquired(trace.SpanID{}), released(trace.SpanID{})
		assert.Equal(t, []seen{waited, hold}, r.seen(t))
		points := r.points(t)
		assert.Equal(t, one(waited.metric()), points["redlatch.lock.wait.duration"])
		assert.Equal(t, one(hold.metric()), points["redlatch.lock.hold.duration"])
		assert.Equal(t, none, points["redlatch.lock.active"])
		assert.Equal(t, none, points["redlatch.lock.waiting"])
	})
}

// The hold, its span and its duration end when the last handle is released.
func TestReentry_LastHandleEndsTheHold(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		outer, err := g.Acquire(t.Context(), order)
		require.NoError(t, err)
		inner, err := g.Acquire(outer.Context(), order)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, outer.Release(t.Context()))
		assert.Empty(t, r.named("hold order"))
		time.Sleep(time.Second)
		require.NoError(t, inner.Release(t.Context()))
		hold := r.the(t, "hold order")
		assert.Equal(t, 3*time.Second, hold.EndTime().Sub(hold.StartTime()))
		for _, m := range r.collect(t).Metrics {
			if m.Name == "redlatch.lock.hold.duration" {
				assert.InDelta(t, 3, m.Data.(metricdata.Histogram[float64]).DataPoints[0].Sum, 1e-9)
			}
		}
	})
}

// Another key under a hold is no re-entry: it is below the hold.
func TestReentry_NestedLocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		require.NoError(t, g.WithLock(t.Context(), order, func(ctx context.Context) error {
			return g.WithLock(ctx, guard.Key("stock"), func(ctx context.Context) error {
				r.Event(ctx, lock, guard.Event{Kind: guard.EventLoss, Err: &guard.LostError{}})
				return g.WithLock(ctx, order, nothing)
			}, guard.Name("stock"))
		}))
		hold := r.the(t, "hold order")
		assert.Len(t, r.named("acquire order"), 1)
		assert.Len(t, hold.Events(), 1)
		assert.Empty(t, r.the(t, "hold stock").Events())
		for _, name := range []string{"acquire stock", "hold stock"} {
			assert.Equal(t, hold.SpanContext().SpanID(), r.the(t, name).Parent().SpanID(), name)
		}
	})
}

// The limit is on spans alone: it may be computed, and have many values.
func TestLimit_ModesAreOnSpansAndMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		require.NoError(t, g.WithLock(t.Context(), order, nothing, guard.Name("export"), guard.Limit(3)))
		require.NoError(t, g.WithLock(t.Context(), order, nothing, guard.Name("rates"), guard.Shared()))
		require.NoError(t, g.WithLock(t.Context(), order, nothing))

		for name, want := range map[string][2]any{"export": {"limit", int64(3)}, "rates": {"shared", nil}, "order": {nil, nil}} {
			for _, kind := range []string{"acquire ", "hold "} {
				got := attributesOf(r.the(t, kind+name).Attributes())
				assert.Equal(t, want[0], got["redlatch.lock.mode"], kind+name)
				assert.Equal(t, want[1], got["redlatch.lock.limit"], kind+name)
			}
		}
		modes := map[any]any{}
		for _, p := range r.points(t)["redlatch.lock.hold.duration"] {
			modes[p.Attributes["redlatch.lock.name"]] = p.Attributes["redlatch.lock.mode"]
			assert.NotContains(t, p.Attributes, "redlatch.lock.limit")
		}
		assert.Equal(t, map[any]any{"export": "limit", "rates": "shared", "order": nil}, modes)
	})
}
