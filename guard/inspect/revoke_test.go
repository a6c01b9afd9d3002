package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestRevoke_AHungHolderKeepsItsLockUntilItsLeaseIsOver(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "k", guard.TTL(1500*time.Millisecond))
	next := r.start(r.guard(), "k")
	r.await("k", 1, 1)
	r.revokes("k", h.Fence(), true)
	h.awaitEnd() // the work does not end
	deadline := h.Deadline()
	in := <-next
	assert.False(t, time.Now().Before(deadline), "the next caller got in before the lease was over")
	in.finish(nil)
	h.finish(guard.ErrRevoked)
}

// Redis knows the fence under which the process got the lock, not those that it handed over.
func TestRevoke_AfterAHandOver(t *testing.T) {
	r := newEnv(t)
	g := r.guard(guard.HandoverWindow(time.Minute))
	first := r.hold(g, "k")
	next := r.start(g, "k")
	require.Eventually(t, func() bool {
		all := g.Holds()
		return len(all) == 1 && all[0].Waiting == 1
	}, patience, time.Millisecond)
	first.finish(nil)
	second := <-next
	require.Greater(t, second.Fence(), first.Fence())
	r.revokes("k", second.Fence(), false)
	require.NoError(t, second.ctx.Err())
	r.revokes("k", first.Fence(), true)
	second.ends(guard.ErrRevoked)
}

func TestRevoke_TwiceAndLate(t *testing.T) {
	r := newEnv(t)
	g := r.guard()
	h := r.hold(g, "k")
	for range 3 {
		r.revokes("k", h.Fence(), true)
	}
	holder := r.get("k").Holders[0]
	assert.Equal(t, h.Fence(), holder.Fence, "it is still named by its fence")
	assert.True(t, holder.Revoked)
	assert.False(t, holder.Since.IsZero())
	r.revokes("k", h.Fence()+1, false)
	h.finish(guard.ErrRevoked)
	r.revokes("k", h.Fence(), false)

	next := r.hold(g, "k")
	before := r.rdb.HGetAll(t.Context(), "redlatch:{k}").Val()
	r.revokes("k", h.Fence(), false)
	r.breaks("k", h.Fence(), false)
	assert.Equal(t, before, r.rdb.HGetAll(t.Context(), "redlatch:{k}").Val())
	for _, owner := range []string{testenv.Owner(h.Lease), testenv.Owner(next.Lease)} { // a late message, and a forged one
		instance, _, _ := strings.Cut(owner, "-")
		require.NoError(t, r.rdb.Publish(t.Context(), "redlatch:grant:"+instance, "!"+owner).Err())
	}
	require.NoError(t, next.Check(t.Context()))
	require.NoError(t, next.ctx.Err())
	next.finish(nil)
}

func TestRevoke_WhenMemoryIsFull(t *testing.T) {
	r := newEnv(t)
	g := r.guard()
	h, broken := r.hold(g, "k"), r.hold(g, "l")
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	r.revokes("k", h.Fence(), true)
	r.breaks("l", broken.Fence(), true)
	require.NoError(t, r.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	h.ends(guard.ErrRevoked)
	broken.ends(guard.ErrRevoked)
}

// A key that only a MinHold keeps is a lock like others. A hold that was revoked keeps nothing.
func TestRevoke_AndMinHold(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "ended", guard.MinHold(time.Hour))
	r.revokes("ended", h.Fence(), true)
	h.ends(guard.ErrRevoked)
	assert.Empty(t, r.get("ended").Holders)

	before := time.Now()
	kept := r.hold(r.guard(guard.Instance("web-1")), "kept", guard.MinHold(time.Hour), guard.Metadata("nightly"))
	kept.finish(nil)
	r.revokes("kept", kept.Fence(), true)
	var got inspect.Holder
	require.Eventually(t, func() bool { // a Guard announces its name beside its first lock
		got = r.get("kept").Holders[0]
		return got.Instance == "web-1"
	}, patience, time.Millisecond)
	assert.Greater(t, got.Left, 59*time.Minute)
	assert.WithinDuration(t, before, got.Since, patience)
	got.Left, got.Since = 0, time.Time{}
	assert.Equal(t, inspect.Holder{Instance: "web-1", Metadata: "nightly", Fence: kept.Fence(), Limit: 1, Revoked: true}, got, "no call is open")
	assert.Equal(t, []string{"kept"}, r.all("ke*"))

	next := r.start(r.guard(), "kept")
	r.await("kept", 1, 1)
	r.breaks("kept", kept.Fence(), true)
	(<-next).finish(nil)
}

func TestRevoke_OnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	r := &env{t, inspect.New(c.Client(t)), nil, nil}
	a, b := guardOn(t, c.Client(t)), guardOn(t, c.Client(t))
	keys, holds := []string{"a", "b", "c", "d", "}e", `\f`}, map[string]held{}
	for _, key := range keys {
		holds[key] = r.hold(a, key)
	}
	assert.ElementsMatch(t, keys, r.all(""))
	for key, h := range holds {
		next := r.start(b, key)
		r.await(key, 1, 1)
		r.revokes(key, h.Fence(), true)
		h.ends(guard.ErrRevoked)
		(<-next).finish(nil)
	}
}
