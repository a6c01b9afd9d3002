package redisconn_test

import (
	"context"
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
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What a Guard does on one Redis it does on a cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for name, test := range map[string]func(*testing.T, *redistest.Cluster){
		"renewals":          clusterRenewals,
		"messages":          clusterMessages,
		"local hand-overs":  clusterLocalHandOvers,
		"nested":            clusterNested,
		"keys":              clusterNastyKeys,
		"lost replies":      clusterLostReplies,
		"lost renewal":      clusterLostRenewal,
		"late requests":     clusterLateRequests,
		"round trips":       clusterRoundTrips,
		"half-open":         clusterHalfOpen,
		"migration":         clusterMigration,
		"flushed scripts":   clusterFlushedScripts,
		"the store's rules": clusterContract,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
	testenv.ClusterIsClean(t, c)
}

func clusterContract(t *testing.T, c *redistest.Cluster) {
	n := 0
	guardtest.TestStore(t, func(tb testing.TB) guardstore.Store {
		n++
		return testenv.RedisStore(tb, c.Client(tb), "contract"+strconv.Itoa(n))
	})
}

// stat adds up a number that the primaries count.
func clusterStat(t *testing.T, c *redistest.Cluster, section, name, field string) (sum int) {
	t.Helper()
	for _, s := range c.Nodes() {
		info, err := s.Client(t).InfoMap(t.Context(), section).Result()
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

func clusterRenewals(t *testing.T, c *redistest.Cluster) {
	const n, ttl, rounds = 300, 600 * time.Millisecond, 9
	r := &guardtest.Recorder{}
	g := clusterGuard(t, c.Client(t), guard.TTL(ttl), guard.Observe(r))
	leases := make([]*guard.Lease, n)
	var all sync.WaitGroup
	for i, key := range clusterKeys("renewed", n) { // at once, so that they are due together
		all.Go(func() {
			var err error
			leases[i], err = g.Acquire(t.Context(), guard.Key(key))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	at := make(map[*redistest.Server]int)
	for _, key := range clusterKeys("renewed", 30) {
		at[c.Primary(clusterLock(key))]++
	}
	require.Len(t, at, 3, "keys are on all primaries")

	reads := clusterStat(t, c, "stats", "total_reads_processed", "")
	calls := clusterStat(t, c, "commandstats", "cmdstat_evalsha", "calls")
	time.Sleep(rounds * ttl / 3)
	calls = clusterStat(t, c, "commandstats", "cmdstat_evalsha", "calls") - calls
	reads = clusterStat(t, c, "stats", "total_reads_processed", "") - reads
	for _, l := range leases {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	}
	assert.Empty(t, r.Events(guard.Loss))
	assert.Greater(t, calls, n*rounds/2, "renewals")
	assert.Less(t, reads, calls/3, "they came in pipelines")
	t.Log(calls, "renewals came in", reads, "reads")
}

// The lock goes round the instances in turn, by messages, wherever those are subscribed.
// Without, a hand-over would take up to a second.
func clusterMessages(t *testing.T, c *redistest.Cluster) {
	const instances, rounds = 6, 10
	ledger := newClusterLedger()
	var turns []int
	rdb := c.Client(t)
	first, err := clusterGuard(t, rdb).Acquire(t.Context(), guard.Key("round"))
	require.NoError(t, err)
	var callers sync.WaitGroup
	for who := range instances {
		g := clusterGuard(t, c.Client(t), guard.HandoverWindow(0))
		callers.Go(func() {
			for range rounds {
				assert.NoError(t, g.WithLock(t.Context(), guard.Key("round"), func(ctx context.Context) error {
					time.Sleep(5 * time.Millisecond) // the others are in the queue when it ends
					ledger.mu.Lock()
					turns = append(turns, who)
					ledger.mu.Unlock()
					return ledger.write(ctx, "round")
				}))
			}
		})
	}
	require.Eventually(t, func() bool { return rdb.ZCard(t.Context(), clusterLock("round")+":queue").Val() == instances },
		10*time.Second, time.Millisecond)
	start := time.Now()
	require.NoError(t, first.Release(t.Context()))
	callers.Wait()
	ledger.check(t)
	assert.Equal(t, instances*rounds, ledger.writes())
	assert.Less(t, time.Since(start), instances*rounds*250*time.Millisecond)
	again := 0
	for i, who := range turns[:len(turns)/2] {
		if i > 0 && turns[i-1] == who {
			again++
		}
	}
	assert.LessOrEqual(t, again, 3, "turns of the one who had the turn before: %v", turns)
}

func clusterLocalHandOvers(t *testing.T, c *redistest.Cluster) {
	const callers = 100
	r, ledger := &guardtest.Recorder{}, newClusterLedger()
	g := clusterGuard(t, c.Client(t), guard.Observe(r), guard.HandoverWindow(50*time.Millisecond))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			assert.NoError(t, g.WithLock(t.Context(), guard.Key("local"), func(ctx context.Context) error {
				return ledger.write(ctx, "local")
			}))
		})
	}
	all.Wait()
	ledger.check(t)
	assert.Equal(t, callers, ledger.writes())
	assert.Greater(t, len(r.Events(guard.Handover)), callers/2)
}

func clusterNested(t *testing.T, c *redistest.Cluster) {
	rdb := c.Client(t)
	g, other := clusterGuard(t, rdb), clusterGuard(t, rdb)
	depth := func(ctx context.Context) string {
		l, _ := guard.FromContext(ctx)
		depth, _, _ := strings.Cut(rdb.HGet(ctx, clusterLock(l.Key()), l.Owner()).Val(), " ")
		return depth
	}
	a, b := guard.Key("nested:a"), guard.Key("nested:b")
	require.NoError(t, g.WithLock(t.Context(), a, func(ctx context.Context) error {
		assert.Equal(t, "1", depth(ctx))
		assert.NoError(t, g.WithLock(ctx, a, func(ctx context.Context) error {
			assert.Equal(t, "2", depth(ctx))
			return g.WithLock(ctx, b, func(ctx context.Context) error {
				assert.ErrorIs(t, other.WithLock(t.Context(), a, func(context.Context) error { return nil }, guard.NoWait()), guard.ErrBusy)
				assert.ErrorIs(t, other.WithLock(t.Context(), b, func(context.Context) error { return nil }, guard.NoWait()), guard.ErrBusy)
				return nil
			})
		}))
		assert.Equal(t, "1", depth(ctx))
		return nil
	}))
	assert.NoError(t, other.WithLock(t.Context(), a, func(context.Context) error { return nil }, guard.NoWait()))
}

// Each lock's keys are in one slot, or Redis would refuse its scripts.
func clusterNastyKeys(t *testing.T, c *redistest.Cluster) {
	ledger := newClusterLedger()
	keys := []string{
		"{", "}", "{}", "}{", "{}x", "}x", "{a", "a}b", "a{b}c", "{{}}", "{x}:queue", `\`, `\}`, `}\`,
		"\x00", "\r\n", " ", ":", "订单:42", strings.Repeat("}", guard.MaxKeyLength),
	}
	var callers sync.WaitGroup
	for range 3 {
		g := clusterGuard(t, c.Client(t))
		for _, key := range keys {
			for range 3 {
				callers.Go(func() {
					assert.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
						return ledger.write(ctx, key)
					}), "%q", key)
				})
			}
		}
	}
	callers.Wait()
	ledger.check(t)
	assert.Equal(t, 9*len(keys), ledger.writes())
}

// Nodes that forgot the scripts, one of them in the middle of renewals.
func clusterFlushedScripts(t *testing.T, c *redistest.Cluster) {
	r := &guardtest.Recorder{}
	g := clusterGuard(t, c.Client(t), guard.TTL(1500*time.Millisecond), guard.Observe(r))
	var leases []*guard.Lease
	for _, key := range clusterKeys("flushed", 30) {
		l, err := g.Acquire(t.Context(), guard.Key(key))
		require.NoError(t, err)
		leases = append(leases, l)
	}
	for range 10 {
		for _, s := range c.Nodes() {
			require.NoError(t, s.Client(t, func(o *redis.Options) { o.Protocol = 2 }).ScriptFlush(t.Context()).Err())
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, l := range leases {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	}
	assert.Empty(t, r.Events(guard.StoreFailure))
}
