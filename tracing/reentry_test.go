package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestReentry_IsAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		require.NoError(t, g.WithLock(t.Context(), order, func(ctx context.Context) error {
			ctx, own := r.tracers.Tracer("test").Start(ctx, "charge")
			defer own.End()
			return g.WithLock(ctx, order, func(ctx context.Context) error {
				assert.Equal(t, point{attributes{"guard.lock.name": "order"}, 1}, r.points(t)["guard.lock.active"][0])
				return g.WithLock(ctx, order, nothing)
			})
		}))
		hold := released(seen{})
		hold.Events = []string{"guard.lock.reentry", "guard.lock.reentry"}
		assert.Equal(t, []seen{acquired(seen{}), hold}, r.seen(t))
		events := r.the(t, "hold order").Events()
		assert.Equal(t, attributes{"guard.lock.depth": int64(2)}, attributesOf(events[0].Attributes))
		assert.Equal(t, attributes{"guard.lock.depth": int64(3)}, attributesOf(events[1].Attributes))
		points := r.points(t)
		assert.Equal(t, onceAcquired, points["guard.lock.wait.duration"])
		assert.Equal(t, onceReleased, points["guard.lock.hold.duration"])
		assert.Equal(t, none, points["guard.lock.active"])
		assert.Equal(t, none, points["guard.lock.waiting"])
	})
}

// meter looks at the metrics whenever somebody begins to wait.
type meter struct {
	guard.NopObserver
	look func()
}

func (m meter) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	m.look()
	return ctx
}

func TestReentry_WhoReentersIsNotWaiting(t *testing.T) {
	t.Parallel()
	r := newEnv()
	var waiting []int64
	g := guardtest.NewGuard(t, guard.Observe(r), guard.Observe(meter{look: func() {
		waiting = append(waiting, r.points(t)["guard.lock.waiting"][0].Value)
	}}))
	require.NoError(t, g.WithLock(t.Context(), order, func(ctx context.Context) error {
		return g.WithLock(ctx, order, nothing)
	}))
	assert.Equal(t, []int64{1, 0}, waiting)
}

// The hold goes on until its last handle is released, and so does the span.
func TestReentry_LastHandleEndsTheHold(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		outer, err := g.Acquire(t.Context(), order)
		require.NoError(t, err)
		time.Sleep(time.Second)
		inner, err := g.Acquire(outer.Context(), order)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, outer.Release(t.Context()))
		assert.Empty(t, r.named("hold order"))
		time.Sleep(time.Second)
		require.NoError(t, inner.Release(t.Context()))
		hold := r.the(t, "hold order")
		assert.Equal(t, 3*time.Second, hold.EndTime().Sub(hold.StartTime()))
		points := r.points(t)
		assert.Equal(t, onceReleased, points["guard.lock.hold.duration"])
		assert.Equal(t, none, points["guard.lock.active"])
		assert.InDelta(t, 3, r.sum(t, "guard.lock.hold.duration"), 1e-9)
	})
}

func TestReentry_LossEndsTheHoldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		require.ErrorIs(t, g.WithLock(t.Context(), order, func(ctx context.Context) error {
			return g.WithLock(ctx, order, func(ctx context.Context) error {
				s.Drop("order:42")
				<-ctx.Done()
				return nil
			})
		}), guard.ErrLost)
		synctest.Wait() // the watchdog tells the observers last
		assert.Equal(t, codes.Error, r.the(t, "hold order").Status().Code)
		assert.Equal(t, none, r.points(t)["guard.lock.active"])
	})
}

// A re-entry that fails is a lock that was not had.
func TestReentry_FailedReentry(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		_ = g.WithLock(t.Context(), order, func(ctx context.Context) error {
			s.Drop("order:42")
			assert.ErrorIs(t, g.WithLock(ctx, order, nothing), guard.ErrLost)
			return nil
		})
		failed := r.named("acquire order")[1]
		assert.Equal(t, codes.Error, failed.Status().Code)
		assert.Equal(t, r.the(t, "hold order").SpanContext().SpanID(), failed.Parent().SpanID())
		assert.Contains(t, r.points(t)["guard.lock.wait.duration"], point{attributes{
			"guard.lock.name": "order", "guard.lock.outcome": "error", "error.type": "lock_lost",
		}, 1})
		assert.Equal(t, none, r.points(t)["guard.lock.waiting"])
	})
}

// Another key under a hold is no re-entry: it is below the hold.
func TestReentry_NestedLocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		require.NoError(t, g.WithLock(t.Context(), order, func(ctx context.Context) error {
			return g.WithLock(ctx, guard.Key("stock"), func(ctx context.Context) error {
				return g.WithLock(ctx, order, nothing)
			}, guard.Name("stock"))
		}))
		hold := r.the(t, "hold order")
		assert.Len(t, r.named("acquire order"), 1)
		assert.Len(t, hold.Events(), 1, "the re-entry is found below the other hold")
		for _, name := range []string{"acquire stock", "hold stock"} {
			assert.Equal(t, hold.SpanContext().SpanID(), r.the(t, name).Parent().SpanID(), name)
		}
	})
}
