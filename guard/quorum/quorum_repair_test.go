package quorum_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Many locks are held when a server that is far away loses its data: one round trip for each
// would take a renewal's time many times over. It holds all of them again before another
// server loses its data, so that nothing is lost.
func TestQuorumRepair_QuorumRepairsManyLocksAtOnce(t *testing.T) {
	t.Parallel()
	const holds, ttl, away = 300, 6 * time.Second, 20 * time.Millisecond
	q := testenv.NewQuorumEnv(t, 3)
	proxy := redistest.NewProxy(t, q.Servers[0].Addr())
	clients := append([]redis.UniversalClient{proxy.Client(t)}, q.Clients(t)[1:]...)
	g := testenv.GuardOnServers(t, clients, guard.TTL(ttl), guard.StoreTimeout(10*time.Second))

	leases := make([]*guard.Lease, holds)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			var err error
			leases[i], err = g.Acquire(t.Context(), guard.Keyf("order:%d", i))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	proxy.Delay(away)
	direct := q.Clients(t)
	held := func(server int) (n int) {
		keys, err := direct[server].Keys(t.Context(), "guard:{*}").Result()
		require.NoError(t, err)
		return len(keys)
	}
	for server, client := range direct {
		require.Eventually(t, func() bool { return held(server) == holds }, testenv.Patience, testenv.Tick, "not held everywhere")
		require.NoError(t, client.FlushAll(t.Context()).Err())
		wiped := time.Now()
		require.Eventually(t, func() bool { return held(server) == holds }, ttl, testenv.Tick)
		t.Logf("server %d holds all again after %v", server, time.Since(wiped))
	}
	for _, l := range leases {
		require.NoError(t, l.Err())
		all.Go(func() { assert.NoError(t, l.Release(t.Context())) })
	}
	all.Wait()
	for server := range direct {
		assert.Eventually(t, func() bool { return held(server) == 0 }, testenv.Patience, testenv.Tick, "given back")
	}
}
