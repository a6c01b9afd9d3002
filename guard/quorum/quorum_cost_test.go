package quorum_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// A release sets no tombstone for what the servers beyond the majority are about to answer: the
// tombstones would slow down whatever comes within the next minute.
func TestQuorumCost_QuorumBuriesNothingInPeace(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 5)
	g := q.Guard(t)
	for range 100 {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing))
	}
	require.Eventually(t, func() bool { return q.Holders(t, "order:42") == 0 }, testenv.Patience, 10*time.Millisecond)
	for _, client := range q.Clients(t) {
		assert.Zero(t, client.Exists(t.Context(), "guard:{order:42}:queue").Val())
	}
}

// A server that is gone does not cost every cycle its dials.
func TestQuorumCost_QuorumDialsADeadServerNowAndThen(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	var dials atomic.Int64
	clients := q.Clients(t)
	clients[1] = q.Servers[1].Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	g := testenv.GuardOnServers(t, clients)
	q.Servers[1].Kill()
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing))
	before, begun := dials.Load(), time.Now()
	const cycles = 200
	for range cycles {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing))
	}
	// What is owed is asked for on top, and calls at the same time do not know of each other.
	assert.LessOrEqual(t, dials.Load()-before, 10+3*int64(time.Since(begun)/(20*time.Millisecond)))
}

// A server of a quorum takes the quick way of the scripts, also for a key that was used before, and
// is sent one script to acquire and one to release.
func TestQuorumCost_QuorumCycleIsLean(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g := q.Guard(t)
	clients := q.Clients(t)
	free := func() bool { return q.Holders(t, "order:42") == 0 }
	require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing)) // loads the scripts
	require.Eventually(t, free, testenv.Patience, 10*time.Millisecond)
	for _, c := range clients {
		require.NoError(t, c.ConfigResetStat(t.Context()).Err())
	}
	l, err := g.Acquire(t.Context(), guard.Key("order:42"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return q.Holders(t, "order:42") == 3 }, testenv.Patience, 10*time.Millisecond)
	require.NoError(t, l.Release(t.Context()))
	require.Eventually(t, free, testenv.Patience, 10*time.Millisecond)
	require.Equal(t, 6, q.Scripts(t))
	for _, c := range clients {
		stats, err := c.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		assert.NotContains(t, stats, "cmdstat_hmget", "the slow way looks who is inside")
		assert.NotContains(t, stats, "cmdstat_zrem")
	}
}
