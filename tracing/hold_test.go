package tracing_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// What is said of a hold that is over before its work is.
func TestHold_NotHeldToTheEnd(t *testing.T) {
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

				want := released(seen{Parent: caller.SpanContext().SpanID(), Status: codes.Error})
				want.Attributes["guard.lock.outcome"] = test.outcome
				want.Attributes["error.type"] = test.errorType
				got := r.seen(t)[1]
				require.NotEmpty(t, got.Events)
				assert.Equal(t, "guard.lock.loss", got.Events[len(got.Events)-1])
				got.Events = nil
				assert.Equal(t, want, got)
				assert.Equal(t, begun, r.the(t, "hold order").EndTime(), "the span ends with the hold, not with the work")

				points := r.points(t)
				assert.Equal(t, one(want.metric()), points["guard.lock.hold.duration"])
				assert.Equal(t, none, points["guard.lock.active"])
			})
		})
	}
}

func TestHold_RenewalsAreEvents(t *testing.T) {
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
		count := map[string]int64{}
		for _, event := range hold.Events {
			count[event]++
		}
		renewed, failed := count["guard.lock.renewal"], count["guard.lock.store_failure"]
		assert.GreaterOrEqual(t, renewed, int64(2))
		assert.Positive(t, failed)
		assert.Len(t, hold.Events, int(renewed+failed))
		assert.Equal(t, attributes{
			"guard.lock.name": "order", "guard.lock.operation": "renew",
			"error.type": "store_unavailable", "error.message": "connection refused",
		}, attributesOf(r.the(t, "hold order").Events()[slices.Index(hold.Events, "guard.lock.store_failure")].Attributes))
		assert.ElementsMatch(t, []point{
			{attributes{"guard.lock.name": "order"}, renewed},
			{attributes{"guard.lock.name": "order", "error.type": "store_unavailable"}, failed},
		}, r.points(t)["guard.lock.renewals"])
	})
}
