package redisconn_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What befalls one node of a cluster hurts its own keys only.
func TestClusterFailure_ClusterNode(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, "--cluster-node-timeout", "30000") // nobody takes over
	t.Run("hangs", func(t *testing.T) { clusterNodeHangs(t, c) })
	t.Run("comes back empty", func(t *testing.T) { clusterNodeComesBackEmpty(t, c) })
	t.Run("is full", func(t *testing.T) { clusterNodeIsFull(t, c) })
	t.Run("cuts its clients off", func(t *testing.T) { clusterNodeCutsOff(t, c) })
}

// clusterLeases takes keys, of which some are on a node and others are not.
func clusterLeases(t *testing.T, c *redistest.Cluster, g *guard.Guard, name string, ttl time.Duration) (node *redistest.Server, here, there []*guard.Lease) {
	t.Helper()
	node = c.Primary(clusterLock(name + ":0"))
	for _, key := range clusterKeys(name, 40) {
		l, err := g.Acquire(t.Context(), guard.Key(key), guard.TTL(ttl))
		require.NoError(t, err)
		if c.Primary(clusterLock(key)) == node {
			here = append(here, l)
		} else {
			there = append(there, l)
		}
	}
	require.NotEmpty(t, there)
	return node, here, there
}

func clusterRelease(t *testing.T, leases ...*guard.Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	}
}

func clusterNodeHangs(t *testing.T, c *redistest.Cluster) {
	const ttl = time.Second
	g := clusterGuard(t, c.Client(t))
	hung, here, there := clusterLeases(t, c, g, "hung", ttl)
	elsewhere := make(map[string]bool)
	for _, key := range clusterKeys("load", 40) {
		elsewhere[key] = c.Primary(clusterLock(key)) != hung
	}
	require.NoError(t, hung.Pause())

	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var slowest atomic.Int64
	for key, elsewhere := range elsewhere {
		callers.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				err := g.WithLock(ctx, guard.Key(key), func(context.Context) error { return nil })
				if !elsewhere || ctx.Err() != nil {
					continue
				}
				assert.NoError(t, err)
				slowest.Store(max(slowest.Load(), int64(time.Since(start))))
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	for _, l := range here {
		<-l.Context().Done()
		require.ErrorIs(t, l.Err(), guard.ErrLost)
	}
	time.Sleep(2 * ttl)
	cancel()
	callers.Wait()
	clusterRelease(t, there...)
	assert.Less(t, time.Duration(slowest.Load()), time.Second, "a cycle on a node that does not hang")
	clusterFailOpen(t, g, elsewhere)
	require.NoError(t, hung.Resume())
	require.Eventually(t, func() bool {
		return g.WithLock(t.Context(), guard.Key("hung:0"), func(context.Context) error { return nil }, guard.NoWait()) == nil
	}, 10*time.Second, 10*time.Millisecond)
}

// clusterFailOpen has calls find out that a node hangs: those for its keys open, and no others.
func clusterFailOpen(t *testing.T, g *guard.Guard, elsewhere map[string]bool) {
	t.Helper()
	for range 2 {
		for key, elsewhere := range elsewhere {
			require.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
				_, held := guard.Held(ctx, key)
				assert.Equal(t, elsewhere, held, key)
				return nil
			}, guard.FailOpen()))
		}
	}
}

func clusterNodeComesBackEmpty(t *testing.T, c *redistest.Cluster) {
	const ttl = 3 * time.Second
	g, other := clusterGuard(t, c.Client(t)), clusterGuard(t, c.Client(t), guard.StoreTimeout(10*time.Second))
	node, here, there := clusterLeases(t, c, g, "emptied", ttl)
	next := make(chan *guard.Lease, 1)
	go func() {
		l, err := other.Acquire(t.Context(), guard.Key("emptied:0"))
		assert.NoError(t, err)
		next <- l
	}()
	rdb := node.Client(t)
	require.Eventually(t, func() bool { return rdb.ZCard(t.Context(), clusterLock("emptied:0")+":queue").Val() == 1 },
		10*time.Second, time.Millisecond)
	node.Restart(t)
	for _, l := range here {
		<-l.Context().Done()
		require.ErrorIs(t, l.Err(), guard.ErrLost)
	}
	l := <-next
	assert.Greater(t, l.Fence(), here[0].Fence())
	clusterRelease(t, append(there, l)...)
}

func clusterNodeIsFull(t *testing.T, c *redistest.Cluster) {
	g := clusterGuard(t, c.Client(t))
	node, here, there := clusterLeases(t, c, g, "full", 500*time.Millisecond)
	admin := node.Client(t)
	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	inTime := testenv.Within(t, guard.DefaultStoreTimeout) // a refusal is not repeated
	err := g.WithLock(t.Context(), guard.Key("full:0x"), func(context.Context) error { return nil })
	for i := 0; err == nil && i < 100; i++ { // until it is a key of this node
		err = g.WithLock(t.Context(), guard.Keyf("full:0x:%d", i), func(context.Context) error { return nil })
	}
	require.ErrorIs(t, err, guard.ErrStore)
	require.ErrorContains(t, err, "OOM")
	inTime()
	time.Sleep(time.Second) // two ttls
	require.NoError(t, g.WithLock(here[0].Context(), guard.Key(here[0].Key()), func(context.Context) error { return nil }))
	clusterRelease(t, append(here, there...)...)
	require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

func clusterNodeCutsOff(t *testing.T, c *redistest.Cluster) {
	const rounds = 20
	ledger, key := newClusterLedger(), "cut"
	node := c.Primary(clusterLock(key))
	var callers sync.WaitGroup
	for range 4 {
		g := clusterGuard(t, c.Client(t), guard.HandoverWindow(0))
		callers.Go(func() {
			for range rounds {
				assert.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
					time.Sleep(5 * time.Millisecond)
					return ledger.write(ctx, key)
				}))
			}
		})
	}
	for _, s := range c.Nodes() {
		admin := s.Client(t)
		for range 3 {
			kinds := []string{"pubsub"}
			if s == node {
				kinds = append(kinds, "normal")
			}
			for _, kind := range kinds {
				require.NoError(t, admin.ClientKillByFilter(t.Context(), "type", kind, "skipme", "yes").Err())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	callers.Wait()
	ledger.check(t)
	assert.Equal(t, 4*rounds, ledger.writes())
}

// A primary dies under load, and its replica takes over: of keys, and of a subscription.
func TestClusterFailure_ClusterFailover(t *testing.T) {
	t.Parallel()
	const instances, ttl = 4, 5 * time.Second
	c := redistest.StartCluster(t)
	load := startClusterLoad(t, instances, func() redis.UniversalClient { return c.Client(t) }, ttl)
	load.flows(t)
	subscribed := func(s *redistest.Server) int {
		return len(s.Client(t, func(o *redis.Options) { o.MaxRetries = -1 }).PubSubChannels(t.Context(), "guard:grant:*").Val())
	}
	var dead *redistest.Server
	for _, key := range load.keys {
		if s := c.Primary(clusterLock(key)); subscribed(s) > 0 {
			dead = s
			break
		}
	}
	require.NotNil(t, dead)
	killed := time.Now()
	dead.Kill()
	load.flows(t)
	t.Log("time until work flowed on all nodes again:", time.Since(killed))
	assert.Eventually(t, func() bool {
		n := 0
		for _, s := range c.Nodes() {
			if s != dead {
				n += subscribed(s)
			}
		}
		return n == instances
	}, 20*time.Second, 100*time.Millisecond, "every instance is subscribed somewhere again")
	load.stop()
	t.Log("longest call:", time.Duration(load.longest.Load()), "leases lost:", load.lost.Load())
	load.ledger.check(t)
}
