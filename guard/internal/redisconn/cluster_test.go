package redisconn_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What a Guard does on one Redis it does on a cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for name, test := range map[string]func(*testing.T, *redistest.Cluster){
		"the store's rules": clusterContract,
		"renewals":          clusterRenewals,
		"lost replies":      clusterLostReplies,
		"half-open":         clusterHalfOpen,
		"migration":         clusterMigration,
		"flushed scripts":   clusterFlushedScripts,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
	for _, s := range c.Nodes() {
		assert.Empty(t, s.Client(t).Keys(t.Context(), "redlatch:*}").Val(), "locks that are left")
	}
}

func clusterContract(t *testing.T, c *redistest.Cluster) {
	n := 0
	store := func(tb testing.TB) guardstore.Store {
		n++
		return testenv.RedisStore(tb, c.Client(tb), "contract"+strconv.Itoa(n))
	}
	storetest.TestStore(t, store)
	storetest.TestQueue(t, store)
}

// clusterStat adds up a number that the primaries count.
func clusterStat(t *testing.T, c *redistest.Cluster, section, name, field string) (sum int) {
	t.Helper()
	for _, client := range nodeClients(t, c) {
		info, err := client.InfoMap(t.Context(), section).Result()
		require.NoError(t, err)
		for _, stats := range info {
			value := stats[name]
			if field != "" {
				_, value, _ = strings.Cut(value, field+"=")
				value, _, _ = strings.Cut(value, ",")
			}
			n, _ := strconv.Atoi(value)
			sum += n
		}
	}
	return sum
}

// nodeClients makes a client for each node.
func nodeClients(t *testing.T, c *redistest.Cluster) map[*redistest.Server]*redis.Client {
	t.Helper()
	clients := make(map[*redistest.Server]*redis.Client)
	for _, s := range c.Nodes() {
		clients[s] = s.Client(t)
	}
	return clients
}

// acquireAll takes keys at once, so that their renewals are due together.
func acquireAll(t *testing.T, g *guard.Guard, keys []string, opts ...guard.LockOption) []*guard.Lease {
	t.Helper()
	leases := make([]*guard.Lease, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			var err error
			leases[i], err = g.Acquire(t.Context(), guard.Key(key), opts...)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	return leases
}

// keysOf makes names of keys in different slots.
func keysOf(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%d", name, i)
	}
	return keys
}

// awaitQueue waits until so many claims wait for a key.
func awaitQueue(t *testing.T, rdb redis.Cmdable, key string, n int64) {
	t.Helper()
	testenv.Eventually(t, func() bool { return rdb.ZCard(t.Context(), testenv.LockOf(key)+":queue").Val() == n }, "not queued")
}

func releaseAll(t *testing.T, leases ...*guard.Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	}
}

func clusterRenewals(t *testing.T, c *redistest.Cluster) {
	const n = 150
	r := &guardtest.Recorder{}
	g := testenv.GuardOn(t, c.Client(t), guard.TTL(6*time.Second), guard.Observe(r), guard.StoreTimeout(testenv.Patience))
	leases := acquireAll(t, g, keysOf("renewed", n))
	at := make(map[*redistest.Server]int)
	for _, l := range leases {
		at[c.Primary(testenv.LockOf(l.Key()))]++
	}
	require.Len(t, at, 3, "keys are on all primaries")

	reads := clusterStat(t, c, "stats", "total_reads_processed", "")
	calls := clusterStat(t, c, "commandstats", "cmdstat_evalsha", "calls")
	before := len(r.Events(guard.EventRenewal))
	testenv.Eventually(t, func() bool { return len(r.Events(guard.EventRenewal)) > before+3*n }, "no renewals")
	calls = clusterStat(t, c, "commandstats", "cmdstat_evalsha", "calls") - calls
	reads = clusterStat(t, c, "stats", "total_reads_processed", "") - reads
	releaseAll(t, leases...)
	assert.Empty(t, r.Events(guard.EventLoss))
	assert.Greater(t, calls, 2*n, "renewals")
	assert.Less(t, reads, calls*2/3, "they came in pipelines")
}

// Each command of a lock, taken and entered again, has its reply lost once.
func clusterLostReplies(t *testing.T, c *redistest.Cluster) {
	proxies, through := c.Proxied(t)
	rdb := c.Client(t)
	patience := guard.StoreTimeout(testenv.Patience)
	g, other := testenv.GuardOn(t, c.Client(t, through), patience), testenv.GuardOn(t, rdb, patience)
	for n, command := range []string{"acquire", "enter", "leave", "release"} {
		name := "swallowed:" + command
		key, lock := guard.Key(name), testenv.LockOf(name)
		depth := func(ctx context.Context, want string) {
			l, _ := guard.FromContext(ctx)
			assert.True(t, strings.HasPrefix(rdb.HGet(ctx, lock, testenv.Owner(l)).Val(), want+" "), command)
		}
		lost := proxies[c.Primary(lock)].SwallowReply(redistest.Contains(lock), n+1)
		require.NoError(t, g.WithLock(t.Context(), key, func(ctx context.Context) error {
			depth(ctx, "1")
			err := g.WithLock(ctx, key, func(ctx context.Context) error { depth(ctx, "2"); return nil })
			depth(ctx, "1")
			return err
		}))
		<-lost
		assert.Zero(t, rdb.Exists(t.Context(), lock).Val())
		require.NoError(t, other.WithLock(t.Context(), key, testenv.Nothing, guard.NoWait()))
	}
}

// All connections fall silent at once, idle ones included, as when a firewall forgets
// them. The first that times out is enough to know.
func clusterHalfOpen(t *testing.T, c *redistest.Cluster) {
	const ttl = 4 * time.Second
	proxies, through := c.Proxied(t)
	r := &guardtest.Recorder{}
	g := testenv.GuardOn(t, c.Client(t, through), guard.Observe(r), guard.StoreTimeout(time.Minute))
	l, err := g.Acquire(t.Context(), guard.Key("half"), guard.TTL(ttl))
	require.NoError(t, err)
	clients := nodeClients(t, c)
	subscribers := func() (ids []string) {
		for s, client := range clients {
			for line := range strings.Lines(client.Do(t.Context(), "client", "list", "type", "pubsub").String()) {
				id, _, _ := strings.Cut(line, " addr=")
				ids = append(ids, s.Addr()+id)
			}
		}
		return ids
	}
	waiting := testenv.InBackground(func() error { return g.WithLock(t.Context(), guard.Key("half"), testenv.Nothing) })
	for range 5 {
		releaseAll(t, acquireAll(t, g, keysOf("connections", 60))...)
	}
	for _, p := range proxies {
		p.HalfOpen()
	}
	before, start := subscribers(), time.Now()
	require.NoError(t, g.WithLock(t.Context(), guard.Key("connections:0"), testenv.Nothing))
	assert.Less(t, time.Since(start), 15*time.Second, "however long the StoreTimeout")
	testenv.Eventually(t, func() bool {
		return slices.ContainsFunc(subscribers(), func(id string) bool { return !slices.Contains(before, id) })
	}, "the subscription is replaced, while Redis believes in the old one")
	time.Sleep(time.Until(start.Add(2 * ttl)))
	releaseAll(t, l)
	require.NoError(t, waiting(t))
	assert.NotEmpty(t, r.Events(guard.EventStoreFailure), "the connections did fall silent")
}

// A slot moves away, and on, under a lock that is held and waited for. While the lock is
// here and its queue there, Redis refuses all claims; its holder keeps it.
func clusterMigration(t *testing.T, c *redistest.Cluster) {
	const ttl = 4 * time.Second
	key, lock := guard.Key("moving"), testenv.LockOf("moving")
	r := &guardtest.Recorder{}
	book := &testenv.Book{Tb: t, Inside: map[string]string{}, Fences: map[string]uint64{}}
	patience := guard.StoreTimeout(time.Minute) // the waiter is refused for as long as the move takes
	holder, waiter := testenv.GuardOn(t, c.Client(t), guard.TTL(ttl), guard.Observe(r), patience), testenv.GuardOn(t, c.Client(t), patience)
	held, err := holder.Acquire(t.Context(), key)
	require.NoError(t, err)
	leave := book.Enter(held.Context(), "moving", "the holder")
	write := func(g *guard.Guard) error {
		return g.WithLock(t.Context(), key, func(ctx context.Context) error {
			book.Enter(ctx, "moving", "a writer")()
			return nil
		})
	}
	waits := testenv.InBackground(func() error { return write(waiter) })
	awaitQueue(t, c.Client(t), "moving", 1)

	m := c.Migrate(t, lock)
	m.Move(t, lock)
	renewals := len(r.Events(guard.EventRenewal))
	testenv.Eventually(t, func() bool { // entering and renewing look for the lock where it is
		require.NoError(t, holder.WithLock(held.Context(), key, testenv.Nothing))
		return len(r.Events(guard.EventRenewal)) >= renewals+2
	}, "it is not renewed")
	m.Move(t, lock+":queue")
	leave()
	released := testenv.InBackground(func() error { return held.Release(context.Background()) })
	m.Finish(t)
	require.NoError(t, released(t))
	require.NoError(t, waits(t))
	assert.Empty(t, r.Events(guard.EventLoss))

	c.Migrate(t, lock).Finish(t) // clients that know nothing of the move are notified of it (MOVED)
	require.NoError(t, write(waiter))
	require.NoError(t, write(holder))
}

// Nodes that forgot the scripts, one of them in the middle of renewals.
func clusterFlushedScripts(t *testing.T, c *redistest.Cluster) {
	r := &guardtest.Recorder{}
	leases := acquireAll(t, testenv.GuardOn(t, c.Client(t), guard.TTL(3*time.Second), guard.Observe(r)), keysOf("flushed", 30))
	clients := nodeClients(t, c)
	testenv.Eventually(t, func() bool {
		for _, client := range clients {
			require.NoError(t, client.ScriptFlush(t.Context()).Err())
		}
		return len(r.Events(guard.EventRenewal)) >= len(leases)
	}, "no renewals")
	releaseAll(t, leases...)
	assert.Empty(t, r.Events(guard.EventStoreFailure))
}

// What befalls one node of a cluster hurts its own keys only.
func TestCluster_NodeThatHangs(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	c := redistest.StartCluster(t, "--cluster-node-timeout", "30000") // no replica takes over
	hung := c.Primary(testenv.LockOf("hung:0"))
	elsewhere := func(key string) bool { return c.Primary(testenv.LockOf(key)) != hung }
	g := testenv.GuardOn(t, c.Client(t), guard.StoreTimeout(10*time.Second)) // a busy machine is slow, too
	var here, there []*guard.Lease
	for _, l := range acquireAll(t, g, keysOf("hung", 40), guard.TTL(ttl)) {
		if elsewhere(l.Key()) {
			there = append(there, l)
		} else {
			here = append(here, l)
		}
	}
	require.NotEmpty(t, there)
	keys := keysOf("load", 40)
	other := make(map[string]bool)
	for _, key := range keys {
		other[key] = elsewhere(key)
	}
	require.NoError(t, hung.Pause())

	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, key := range keys {
		callers.Go(func() {
			cycles := 0
			for ctx.Err() == nil {
				err := g.WithLock(ctx, guard.Key(key), testenv.Nothing)
				if !other[key] || ctx.Err() != nil {
					continue
				}
				assert.NoError(t, err)
				cycles++
				time.Sleep(10 * time.Millisecond)
			}
			if other[key] {
				assert.Greater(t, cycles, 10, "%s: a cycle that waits for the node that hangs takes seconds", key)
			}
		})
	}
	for _, l := range here {
		<-l.Context().Done()
		require.ErrorIs(t, l.Err(), guard.ErrLost)
	}
	time.Sleep(ttl)
	cancel()
	callers.Wait()
	releaseAll(t, there...)
	g = testenv.GuardOn(t, c.Client(t))
	knows := func() bool { return g.WithLock(t.Context(), guard.Key(there[0].Key()), testenv.Nothing) == nil }
	testenv.Eventually(t, knows, "it may ask the node that hangs first which node serves which slot")
	require.ErrorContains(t, g.WithLock(t.Context(), guard.Key("hung:0"), testenv.Nothing), hung.Addr())
	for range 2 { // calls find out that a node hangs: those for its keys open, and no others
		for _, key := range keys {
			require.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
				_, held := guard.Held(ctx, guard.Key(key))
				assert.Equal(t, other[key], held, key)
				return nil
			}, guard.FailOpen()))
		}
	}
	require.NoError(t, hung.Resume())
	testenv.Eventually(t, func() bool {
		return g.WithLock(t.Context(), guard.Key("hung:0"), testenv.Nothing, guard.NoWait()) == nil
	}, "it is back")
}

// A primary dies, and its replica takes over: of keys, and of a subscription.
func TestCluster_Failover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	g := testenv.GuardOn(t, c.Client(t), guard.StoreTimeout(time.Minute))
	cycle := func() {
		for _, key := range keysOf("page", 6) {
			require.NoError(t, g.WithLock(t.Context(), guard.Key(key), testenv.Nothing))
		}
	}
	cycle()
	var dead *redistest.Server
	clients := nodeClients(t, c)
	subscribed := func() bool { // somewhere else than at the dead one
		for s, client := range clients {
			if s != dead && len(client.PubSubChannels(t.Context(), "redlatch:grant:*").Val()) > 0 {
				dead = s
				return true
			}
		}
		return false
	}
	testenv.Eventually(t, subscribed, "no subscription")
	dead.Kill()
	begun := time.Now()
	cycle()
	assert.Less(t, time.Since(begun), testenv.Patience)
	testenv.Eventually(t, subscribed, "not subscribed again")
}
