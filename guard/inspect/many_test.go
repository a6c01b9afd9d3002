package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestMany_SeveralHolders are shown each, and revoked and broken one by one.
func TestMany_SeveralHolders(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	g, i, key := guardOn(t, rdb), inspect.New(rdb), guard.Key("rates")
	var leases []*guard.Lease
	for _, opts := range [][]guard.LockOption{
		{guard.Shared(), guard.Metadata("a b")},
		{guard.Limit(3)},
		{guard.Shared(), guard.FixedLease(), guard.TTL(guard.MinTTL)},
	} {
		l, err := g.Acquire(t.Context(), key, opts...)
		require.NoError(t, err)
		leases = append(leases, l)
	}
	<-leases[2].Context().Done() // its deadline is before its ttl

	waiting := make(chan error)
	go func() {
		waiting <- g.WithLock(t.Context(), key, func(context.Context) error { return nil }, guard.Limit(1))
	}()
	var info inspect.Info
	require.Eventually(t, func() (ok bool) {
		got, err := i.Get(t.Context(), "rates")
		info = got
		return err == nil && len(got.Waiting) == 1 && len(got.Holders) == 2
	}, patience, time.Millisecond)
	assert.Equal(t, 1, info.Waiting[0].Limit)
	for n, want := range []inspect.Holder{{Metadata: "a b", Limit: 0}, {Limit: 3}} {
		got := info.Holders[n]
		assert.Equal(t, want.Limit, got.Limit)
		assert.Equal(t, want.Metadata, got.Metadata)
		assert.Equal(t, leases[n].Fence(), got.Fence)
		assert.Greater(t, got.Left, 20*time.Second)
		assert.WithinDuration(t, info.Now, got.Since, patience)
	}

	there, err := i.Revoke(t.Context(), "rates", leases[2].Fence()+1_000_000)
	require.NoError(t, err)
	assert.False(t, there)
	for range 2 {
		there, err := i.Revoke(t.Context(), "rates", leases[0].Fence())
		require.NoError(t, err)
		assert.True(t, there)
	}
	<-leases[0].Context().Done()
	require.ErrorIs(t, leases[0].Err(), guard.ErrRevoked)
	require.NoError(t, leases[1].Check(t.Context()), "the other one is not touched")

	there, err = i.Break(t.Context(), "rates", leases[1].Fence())
	require.NoError(t, err)
	assert.True(t, there)
	<-leases[1].Context().Done()
	require.ErrorIs(t, leases[1].Err(), guard.ErrLost)
	_ = leases[0].Release(t.Context())
	require.NoError(t, <-waiting)
}
