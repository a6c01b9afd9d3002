package inspect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// patience is how long a test waits for what must happen.
const patience = 15 * time.Second

func guardOn(t *testing.T, rdb redis.UniversalClient, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func fenceOf(t *testing.T, i *inspect.Inspector, key string) uint64 {
	t.Helper()
	info, err := i.Get(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	return info.Holders[0].Fence
}

func revoked(t *testing.T, i *inspect.Inspector, key string, fence uint64) {
	t.Helper()
	there, err := i.Revoke(t.Context(), key, fence)
	require.NoError(t, err)
	require.True(t, there)
}

// ends waits for the end of a context, and says how long that took.
func ends(t *testing.T, ctx context.Context) time.Duration {
	t.Helper()
	begun := time.Now()
	select {
	case <-ctx.Done():
		return time.Since(begun)
	case <-time.After(patience):
		require.FailNow(t, "the work was not told")
		return 0
	}
}

func TestRevokeTellsAHolderAndTheNextGetsIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b, i := guardOn(t, s.Client(t)), guardOn(t, s.Client(t)), inspect.New(s.Client(t))
	held := make(chan context.Context)
	first := make(chan error, 1)
	go func() {
		first <- a.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
			held <- ctx
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	work := <-held
	in := make(chan time.Time, 1)
	go func() {
		_ = b.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { in <- time.Now(); return nil })
	}()
	require.Eventually(t, func() bool {
		info, err := i.Get(t.Context(), "k")
		return err == nil && len(info.Waiting) == 1
	}, patience, time.Millisecond)
	fence := fenceOf(t, i, "k")
	begun := time.Now()
	revoked(t, i, "k", fence)
	ends(t, work)
	told := time.Since(begun)
	next := (<-in).Sub(begun)
	t.Log("told after", told, "next in after", next)
	assert.Less(t, told, 50*time.Millisecond)
	assert.Less(t, next, 100*time.Millisecond)
	err := <-first
	require.ErrorIs(t, err, guard.ErrRevoked)
	require.ErrorIs(t, err, guard.ErrLost)
	var lost *guard.LostError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, "lock_revoked", lost.ErrorType())
	there, err := i.Revoke(t.Context(), "k", fence)
	require.NoError(t, err)
	assert.False(t, there)
}

var _ = errors.Is
