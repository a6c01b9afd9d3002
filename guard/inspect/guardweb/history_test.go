package guardweb_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
)

func TestHistory_ShowsWhatThisProcessSaw(t *testing.T) {
	seen := guardweb.NewHistory()
	later := guardweb.StopClock(seen)
	r := newEnv(t, guard.Observe(seen))
	p := r.page(guardweb.Show(seen))
	var fence uint64
	for range 3 {
		require.NoError(t, r.g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
			fence, _ = guard.Fence(ctx)
			return nil
		}, guard.Name("payment")))
	}
	lease := r.hold("held", guard.Name("stock"))
	_, err := r.guard(guard.Observe(seen)).Acquire(t.Context(), guard.Key("held"), guard.NoWait(), guard.Name("stock"))
	require.ErrorIs(t, err, guard.ErrBusy)

	p.says("/", `<td data-label="Name"><bdi>payment</bdi>`, `aria-label="holds: 3 in 5 minutes"`, `0 held, 0 waiting`, `1 held, 0 waiting`,
		`<rect x="118"`) // the last seconds are at the right
	p.says("/lock?key=k", text(fence), "<td>released<td><bdi>payment</bdi><td>")
	p.says("/lock?key=held", "<td>busy<td><bdi>stock</bdi><td>")
	require.NoError(t, lease.Release(t.Context()))
	p.says("/lock?key=held", "<td>released<td><bdi>stock</bdi><td>")
	p.says("/lock?key=other", "Nothing yet")
	assert.NotContains(t, p.says("/"), "not released in good order")
	seen.HoldEnd(t.Context(), guard.Lock{Key: "gone", Name: "lost"}, guard.HoldResult{Outcome: guard.OutcomeLost})
	p.says("/", "not released in good order")

	later(5*time.Minute - 5*time.Second)
	p.says("/", "holds: 3 in 5 minutes")
	later(5 * time.Second)
	assert.NotContains(t, p.says("/"), "holds: 3 in 5 minutes", "older than that")
}
