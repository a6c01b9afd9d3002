package tracing_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

var (
	errOwn     = errors.New("own")
	errRefused = errors.New("connection refused")
)

// acquired and released are the spans of a lock that was free and given back.
func acquired(parent seen) seen {
	parent.Name = "acquire order"
	parent.Attributes = attributes{
		"guard.lock.name": "order", "guard.lock.outcome": "acquired", "guard.lock.queued": false,
	}
	return parent
}

func released(parent seen) seen {
	parent.Name = "hold order"
	parent.Attributes = attributes{"guard.lock.name": "order", "guard.lock.outcome": "released"}
	return parent
}

var (
	onceAcquired = one(attributes{"guard.lock.name": "order", "guard.lock.outcome": "acquired"})
	onceReleased = one(attributes{"guard.lock.name": "order", "guard.lock.outcome": "released"})
)

func TestWait_Free(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		ctx, caller := r.caller(t.Context())
		var fence uint64
		require.NoError(t, g.WithLock(ctx, order, func(ctx context.Context) error {
			lease, _ := guard.FromContext(ctx)
			fence = lease.Fence()
			time.Sleep(3 * time.Second)
			_, own := r.tracers.Tracer("test").Start(ctx, "charge")
			own.End()
			return nil
		}))
		caller.End()

		below := seen{Parent: caller.SpanContext().SpanID()}
		assert.Equal(t, []seen{acquired(below), released(below)}, r.seen(t))
		hold := r.the(t, "hold order")
		assert.EqualValues(t, fence, attributesOf(hold.Attributes())["guard.lock.fence"])
		assert.Equal(t, 3*time.Second, hold.EndTime().Sub(hold.StartTime()))
		assert.Equal(t, hold.SpanContext().SpanID(), r.spans.Ended()[1].Parent().SpanID(), "of the work's own span")

		points := r.points(t)
		assert.Equal(t, onceAcquired, points["guard.lock.wait.duration"])
		assert.Equal(t, onceReleased, points["guard.lock.hold.duration"])
		assert.Equal(t, none, points["guard.lock.active"])
		assert.Equal(t, none, points["guard.lock.waiting"])
		assert.Len(t, points, 4)
	})
}

func TestWait_ActiveAndWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		lease, err := g.Acquire(t.Context(), order)
		require.NoError(t, err)
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() { assert.NoError(t, g.WithLock(t.Context(), order, nothing)) })
		}
		synctest.Wait()
		points, name := r.points(t), attributes{"guard.lock.name": "order"}
		assert.Equal(t, []point{{name, 1}}, points["guard.lock.active"])
		assert.Equal(t, []point{{name, 3}}, points["guard.lock.waiting"])
		require.NoError(t, lease.Release(t.Context()))
		waiters.Wait()
		points = r.points(t)
		assert.Equal(t, none, points["guard.lock.active"])
		assert.Equal(t, none, points["guard.lock.waiting"])
	})
}

// What is said of a wait that comes to an end without the lock. Somebody else holds it,
// in a trace of their own.
func TestWait_NotAcquired(t *testing.T) {
	cancelAfter := func(ctx context.Context, d time.Duration) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx
	}
	for name, test := range map[string]struct {
		call      func(ctx context.Context, g *guard.Guard) error
		outcome   string
		errorType string // "" = no error
		queued    bool
	}{
		"busy": {func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(ctx, order, nothing, guard.NoWait())
		}, "busy", "lock_busy", false},
		"timeout": {func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(ctx, order, nothing, guard.Wait(3*time.Second))
		}, "timeout", "lock_wait_timeout", true},
		"cancelled": {func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(cancelAfter(ctx, 3*time.Second), order, nothing)
		}, "canceled", "", true},
		"cancelled, with a cause": {func(ctx context.Context, g *guard.Guard) error {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(3*time.Second, func() { cancel(&guard.LostError{Name: "outer", Cause: errOwn}) })
			return g.WithLock(ctx, order, nothing)
		}, "canceled", "", true},
		"deadline": {func(ctx context.Context, g *guard.Guard) error {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			return g.WithLock(ctx, order, nothing)
		}, "canceled", "deadline_exceeded", true},
		"closed": {func(ctx context.Context, g *guard.Guard) error {
			time.AfterFunc(3*time.Second, func() { _ = g.Close() })
			return g.WithLock(ctx, order, nothing)
		}, "closed", "guard_closed", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
				lease, err := g.Acquire(t.Context(), order, guard.Metadata("worker-7"))
				require.NoError(t, err)
				ctx, caller := r.caller(t.Context())
				require.Error(t, test.call(ctx, g))
				caller.End()
				_ = lease.Release(t.Context())
				synctest.Wait()

				want := acquired(seen{Parent: caller.SpanContext().SpanID()})
				want.Attributes["guard.lock.outcome"] = test.outcome
				want.Attributes["guard.lock.queued"] = test.queued
				want.Attributes["guard.lock.holder"] = "worker-7"
				want.Links = append(want.Links, r.the(t, "hold order").SpanContext().SpanID())
				set := attributes{"guard.lock.name": "order", "guard.lock.outcome": test.outcome}
				if test.errorType != "" {
					want.Status = codes.Error
					want.Attributes["error.type"] = test.errorType
					set["error.type"] = test.errorType
				}
				assert.Contains(t, r.seen(t), want)
				points := r.points(t)
				assert.Contains(t, points["guard.lock.wait.duration"], point{set, 1}, "the same on the metric")
				assert.Equal(t, none, points["guard.lock.waiting"])
			})
		})
	}
}

func TestWait_StoreDown(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, s *guardtest.Store) {
		s.Fail(errRefused)
		ctx, caller := r.caller(t.Context())
		require.ErrorIs(t, g.WithLock(ctx, order, nothing), guard.ErrStore)
		require.NoError(t, g.WithLock(ctx, order, nothing, guard.FailOpen()))
		caller.End()

		want := acquired(seen{Parent: caller.SpanContext().SpanID(), Status: codes.Error})
		want.Attributes["guard.lock.outcome"] = "error"
		want.Attributes["error.type"] = "store_unavailable"
		all := r.seen(t)
		var events []string // of the wait or, if the Guard does not say of which wait, the caller
		for i := range all {
			events = append(events, all[i].Events...)
			all[i].Events = nil
		}
		assert.Equal(t, []seen{want, want}, all)
		ended := r.spans.Ended()
		for _, event := range ended[len(ended)-1].Events() {
			events = append(events, event.Name)
		}
		assert.Contains(t, events, "guard.lock.store_failure")
		assert.Contains(t, events, "guard.lock.failed_open")

		points := r.points(t)
		assert.Equal(t, []point{{want.metric(), 2}}, points["guard.lock.wait.duration"])
		assert.Equal(t, one(attributes{"guard.lock.name": "order", "error.type": "store_unavailable"}),
			points["guard.lock.failed_open"])
		assert.NotContains(t, points, "guard.lock.active", "work without a lease is no hold")
	})
}
