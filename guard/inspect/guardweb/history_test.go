package guardweb_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
)

func TestHistory_ShowsWhatThisProcessSaw(t *testing.T) {
	t.Parallel()
	seen := guardweb.NewHistory()
	later := guardweb.StopClock(seen)
	r := newEnv(t, guard.Observe(seen))
	h := guardweb.Handler(r.inspector, guardweb.Show(seen))
	var fence uint64
	for range 3 {
		require.NoError(t, r.g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
			fence, _ = guard.Fence(ctx)
			return nil
		}, guard.Name("payment")))
	}
	lease := hold(t, r.g, "held", guard.Name("stock"))
	_, err := r.guard(t, guard.Observe(seen)).Acquire(t.Context(), guard.Key("held"), guard.NoWait(), guard.Name("stock"))
	require.ErrorIs(t, err, guard.ErrBusy)

	list := get(t, h, "/").body
	assert.Contains(t, list, `<td data-label="Name"><bdi>payment</bdi>`)
	assert.Contains(t, list, `aria-label="holds: 3 in 5 minutes"`)
	assert.Contains(t, list, `0 held, 0 waiting`)
	assert.Contains(t, list, `1 held, 0 waiting`)
	assert.Contains(t, list, `<rect x="118"`, "the last seconds are at the right")

	lock := get(t, h, "/lock?key=k").body
	assert.Contains(t, lock, strconv.FormatUint(fence, 10))
	assert.Contains(t, lock, "<td>released<td><bdi>payment</bdi><td>")
	assert.Contains(t, get(t, h, "/lock?key=held").body, "<td>busy<td><bdi>stock</bdi><td>")
	require.NoError(t, lease.Release(t.Context()))
	assert.Contains(t, get(t, h, "/lock?key=held").body, "<td>released<td><bdi>stock</bdi><td>")
	assert.Contains(t, get(t, h, "/lock?key=other").body, "Nothing yet")

	later(5*time.Minute - 5*time.Second)
	assert.Contains(t, get(t, h, "/").body, "holds: 3 in 5 minutes")
	later(5 * time.Second)
	assert.NotContains(t, get(t, h, "/").body, "holds: 3 in 5 minutes", "older than that")
}

func TestHistory_IsBounded(t *testing.T) {
	t.Parallel()
	seen := guardweb.NewHistory()
	for i := range 5000 {
		l := guard.Lock{Name: "name" + strconv.Itoa(i%200), Key: "key" + strconv.Itoa(i%2)}
		seen.WaitEnd(t.Context(), l, guard.WaitResult{Outcome: guard.OutcomeAcquired})
		seen.WaitStart(t.Context(), l)
		seen.HoldStart(t.Context(), l, guard.Hold{})
		seen.HoldEnd(t.Context(), l, guard.HoldResult{Outcome: guard.OutcomeLost, Err: errors.New("lost"), Hold: guard.Hold{Fence: uint64(i)}})
	}
	names, events := guardweb.Sizes(seen)
	assert.Equal(t, 101, names, "and other")
	assert.Equal(t, 2000, events)
	r := newEnv(t)
	h := guardweb.Handler(r.inspector, guardweb.Show(seen))
	assert.Contains(t, get(t, h, "/").body, "not released in good order")
	lock := get(t, h, "/lock?key=key1").body
	assert.Contains(t, lock, ">4999<", "the newest")
	assert.NotContains(t, lock, ">2999<", "fifty")
}
