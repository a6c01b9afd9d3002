package guardtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestEmbeddedGuard_NewGuardsOnEmbeddedRedis(t *testing.T) {
	t.Parallel()
	g := guardtest.New(t, guard.Name("test"))

	err := g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		lease, ok := guard.Held(ctx, "k")
		require.True(t, ok)
		assert.Equal(t, "k", lease.Key())

		var busy *guard.BusyError
		err := g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }, guard.NoWait())
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "test", busy.Name)
		return nil
	})
	require.NoError(t, err)
}

// A renewed lease outlives its ttl several times: the clock of the embedded Redis and
// the Guard's agree.
func TestEmbeddedGuard_LeaseOnEmbeddedRedisOutlivesItsTTL(t *testing.T) {
	t.Parallel()
	g := guardtest.New(t, guard.TTL(time.Second))

	err := g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2500 * time.Millisecond):
			return nil
		}
	})
	require.NoError(t, err)
}

// A lease that is not renewed is over for Redis and for its holder.
func TestEmbeddedGuard_FixedLeaseOnEmbeddedRedisEnds(t *testing.T) {
	t.Parallel()
	g := guardtest.New(t, guard.TTL(200*time.Millisecond))

	err := g.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		<-ctx.Done()
		return g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil })
	}, guard.FixedLease())
	require.ErrorIs(t, err, guard.ErrMaxHold)
}
