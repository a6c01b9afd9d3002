package inspect_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A key that is only kept is shown with who had it, and no open call.
func TestMinHold_AKeyThatIsKeptAfterItsWork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g, i := guardOn(t, s.Client(t), guard.Instance("web-1")), inspect.New(s.Client(t))
	lease, err := g.Acquire(t.Context(), guard.Key("report"), guard.MinHold(time.Hour), guard.Metadata("nightly"))
	require.NoError(t, err)
	fence := lease.Fence()
	require.NoError(t, lease.Release(t.Context()))

	info, err := i.Get(t.Context(), "report")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	h := info.Holders[0]
	assert.Zero(t, h.Depth, "no call is open")
	assert.Equal(t, "web-1", h.Instance)
	assert.Equal(t, "nightly", h.Metadata)
	assert.Equal(t, fence, h.Fence)
	assert.Equal(t, 1, h.Limit)
	assert.False(t, h.Revoked)
	assert.Greater(t, h.Left, 59*time.Minute)
	assert.WithinDuration(t, info.Now, h.Since, patience)
	n := 0
	for all, err := range i.All(t.Context(), "rep*") {
		require.NoError(t, err)
		assert.Equal(t, info.Holders[0].Fence, all.Holders[0].Fence)
		n++
	}
	assert.Equal(t, 1, n)

	// Break ends it, for whoever waits.
	in := enters(t, guardOn(t, s.Client(t)), "report")
	awaitWaiting(t, i, "report", 1)
	there, err := i.Break(t.Context(), "report", fence)
	require.NoError(t, err)
	assert.True(t, there)
	select {
	case <-in:
	case <-time.After(patience):
		require.FailNow(t, "nobody got in")
	}
}

// Whoever ends a hold wants the key to be free.
func TestMinHold_ARevokedHoldKeepsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g, i := guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	h := hold(t, g, "report", guard.MinHold(time.Hour))
	revoked(t, i, "report", fenceOf(t, i, "report"))
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
	info, err := i.Get(t.Context(), "report")
	require.NoError(t, err)
	assert.Empty(t, info.Holders, "it was revoked, and its MinHold keeps the key")
}

// A key that only a MinHold keeps is a lock like others: whoever revokes it hears no error.
func TestMinHold_RevokeOfAKeyThatIsKeptAfterItsWork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	g, i := guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	lease, err := g.Acquire(t.Context(), guard.Key("report"), guard.MinHold(time.Hour))
	require.NoError(t, err)
	fence := lease.Fence()
	require.NoError(t, lease.Release(t.Context()))
	there, err := i.Revoke(t.Context(), "report", fence+1)
	require.NoError(t, err)
	assert.False(t, there, "another fence")
	revoked(t, i, "report", fence)
	info, err := i.Get(t.Context(), "report")
	require.NoError(t, err)
	require.Len(t, info.Holders, 1, "Break ends it")
	assert.True(t, info.Holders[0].Revoked)
}
