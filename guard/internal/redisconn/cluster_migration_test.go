package redisconn_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A slot moves away, and on, under a lock that is held and waited for. While the lock is
// here and its queue there, Redis lets nobody ask for it; what holds it goes on.
func clusterMigration(t *testing.T, c *redistest.Cluster) {
	const ttl = 900 * time.Millisecond
	key, lock := guard.Key("moving"), clusterLock("moving")
	ledger, r := newClusterLedger(), &guardtest.Recorder{}
	work := func(ctx context.Context) error { return ledger.write(ctx, "moving") }
	holder := clusterGuard(t, c.Client(t), guard.TTL(ttl), guard.Observe(r))
	held, err := holder.Acquire(t.Context(), key)
	require.NoError(t, err)

	waiters := []*guard.Guard{clusterGuard(t, c.Client(t)), clusterGuard(t, c.Client(t))}
	done := make(chan error, len(waiters))
	rdb := c.Client(t)
	for i, g := range waiters {
		go func() { done <- g.WithLock(t.Context(), key, work) }()
		require.Eventually(t, func() bool { return rdb.ZCard(t.Context(), lock+":queue").Val() == int64(i+1) },
			10*time.Second, time.Millisecond)
	}

	m := c.Migrate(t, lock)
	m.Move(t, lock)
	for range 3 { // entering and renewing look for the lock where it is
		time.Sleep(ttl / 2)
		require.NoError(t, holder.WithLock(held.Context(), key, func(context.Context) error { return nil }))
	}
	require.NoError(t, held.Err())
	m.Move(t, lock+":queue")
	released := make(chan error, 1)
	go func() { released <- held.Release(context.Background()) }()
	m.Finish(t)
	require.NoError(t, <-released)
	for range waiters {
		require.NoError(t, <-done)
	}
	assert.Empty(t, r.Events(guard.Loss))

	// Clients that know nothing of the move are told of it (MOVED).
	back := c.Migrate(t, lock)
	back.Finish(t)
	for _, g := range append(waiters, holder) {
		require.NoError(t, g.WithLock(t.Context(), key, work))
	}
	ledger.check(t)
	assert.Equal(t, 2+3, ledger.writes())
}
