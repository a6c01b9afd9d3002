package tracing_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// TestLimit_ModesAreOnSpansAndMetrics, and an exclusive lock says nothing of them. The limit is on
// spans alone: it may be computed, and have many values.
func TestLimit_ModesAreOnSpansAndMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, r *env, g *guard.Guard, _ *guardtest.Store) {
		work := func(context.Context) error { return nil }
		require.NoError(t, g.WithLock(t.Context(), order, work, guard.Name("export"), guard.Limit(3)))
		require.NoError(t, g.WithLock(t.Context(), order, work, guard.Name("rates"), guard.Shared()))
		require.NoError(t, g.WithLock(t.Context(), order, work, guard.Name("order")))

		for name, want := range map[string][2]any{"export": {"limit", int64(3)}, "rates": {"shared", nil}, "order": {nil, nil}} {
			for _, kind := range []string{"acquire ", "hold "} {
				got := attributesOf(r.the(t, kind+name).Attributes())
				assert.Equal(t, want[0], got["guard.lock.mode"], kind+name)
				assert.Equal(t, want[1], got["guard.lock.limit"], kind+name)
			}
		}
		modes := map[any]any{}
		for _, p := range r.points(t)["guard.lock.hold.duration"] {
			modes[p.Attributes["guard.lock.name"]] = p.Attributes["guard.lock.mode"]
			assert.NotContains(t, p.Attributes, "guard.lock.limit")
		}
		assert.Equal(t, map[any]any{"export": "limit", "rates": "shared", "order": nil}, modes)
	})
}
