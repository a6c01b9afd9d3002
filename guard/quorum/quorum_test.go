package quorum_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	os.Exit(redistest.Run(m))
}

const order = "order:42" // the key of testenv.Order

// holdersBecome waits until so many servers hold the order.
func holdersBecome(t *testing.T, q *testenv.QuorumEnv, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return q.Holders(t, order) == n }, testenv.Patience, 10*time.Millisecond)
}

func TestQuorum_StoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	storetest.TestStore(t, func(tb testing.TB) guardstore.Store {
		return q.Store(tb, quorum.Prefix("contract-"+tb.Name()))
	})
}

func TestQuorum_NewRefusesWhatIsNoQuorum(t *testing.T) {
	q := testenv.NewQuorumEnv(t, 3)
	one := q.Clients(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	for name, c := range map[string]struct {
		clients []redis.UniversalClient
		want    string
	}{
		"none":         {nil, "has 0 servers, a quorum needs 3 at least"},
		"two":          {one[:2], "has 2 servers, a quorum needs 3 at least"},
		"even":         {append(q.Clients(t), one[0]), "has 4 servers: an even number survives no more failures than 3 do"},
		"nil":          {[]redis.UniversalClient{one[0], nil, one[1]}, "has no client at index 1"},
		"a twin":       {[]redis.UniversalClient{one[0], one[1], q.Clients(t)[0]}, "leads to the same server at index 0 and 2"},
		"a cluster":    {[]redis.UniversalClient{one[0], one[1], cluster}, "has a *redis.ClusterClient at index 2: a server of a quorum is standalone"},
		"a nil client": {[]redis.UniversalClient{one[0], one[1], (*redis.Client)(nil)}, "has no client at index 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := quorum.New(c.clients)
			require.ErrorIs(t, err, guard.ErrOption)
			assert.ErrorContains(t, err, c.want)
		})
	}
	for _, prefix := range []string{"", "a{b", "a}b", "\xff"} {
		_, err := quorum.New(one, quorum.Prefix(prefix))
		require.ErrorIs(t, err, guard.ErrOption)
		require.Regexp(t, "^guard: Prefix [^ ]+", err)
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := quorum.New(one)
		require.ErrorContains(t, err, "inside of a testing/synctest bubble")
	})
	s, err := quorum.New(one, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "once more")
}

func TestQuorum_HasItsPrefixAndNoLimits(t *testing.T) {
	t.Parallel()
	one := testenv.NewQuorumEnv(t, 3).Clients(t)
	s, err := quorum.New(one, quorum.Prefix("mine"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	require.ErrorContains(t, s.CheckLimit(guardstore.Unlimited), "does not go with a quorum")
	require.ErrorContains(t, s.CheckLimit(3), "3 does not go with a quorum")
	require.NoError(t, s.CheckLimit(guardstore.Exclusive))
	r, err := s.Acquire(t.Context(), guardstore.Claim{Key: "k", Owner: "x-1", TTL: time.Minute})
	require.NoError(t, err)
	require.Equal(t, guardstore.ClaimHeld, r.Status)
	var keys int64
	for _, client := range one {
		keys += client.Exists(t.Context(), "mine:{k}").Val()
	}
	require.GreaterOrEqual(t, keys, int64(2))
}

// exclusion is a critical section that notices a second one inside, and fences that do not grow.
type exclusion struct {
	tb     testing.TB
	inside sync.Mutex
	count  atomic.Int64
	fence  uint64
}

func (x *exclusion) work(ctx context.Context) error {
	if !x.inside.TryLock() {
		x.tb.Error("two inside")
		return nil
	}
	defer x.inside.Unlock()
	fence, _ := guard.Fence(ctx)
	assert.Greater(x.tb, fence, x.fence)
	x.fence = fence
	x.count.Add(1)
	return nil
}

// Any minority may fail, in any way, while callers go on. What loses its data does so
// between two holds: a hold that a bare majority has for less than a round trip may be lost
// with it.
func TestQuorum_SurvivesAMinority(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s *redistest.Server){
		"killed":    func(_ *testing.T, s *redistest.Server) { s.Kill() },
		"suspended": func(t *testing.T, s *redistest.Server) { _ = s.Pause(); t.Cleanup(func() { _ = s.Resume() }) },
		"full": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
		},
		"read-only": func(t *testing.T, s *redistest.Server) {
			require.NoError(t, s.Client(t).ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		},
		"wiped":      func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Client(t).FlushAll(t.Context()).Err()) },
		"restarted":  func(t *testing.T, s *redistest.Server) { s.Restart(t) },
		"wrong type": func(t *testing.T, s *redistest.Server) { s.Client(t).Set(t.Context(), "redlatch:{order:42}", "x", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := testenv.NewQuorumEnv(t, 5)
			x := &exclusion{tb: t}
			var all, before sync.WaitGroup
			harmed := make(chan struct{})
			for range 4 {
				g := q.Guard(t, testenv.Patient)
				for range 25 {
					before.Add(1)
					all.Go(func() {
						assert.NoError(t, g.WithLock(context.Background(), testenv.Order, x.work))
						before.Done()
						<-harmed
						assert.NoError(t, g.WithLock(context.Background(), testenv.Order, x.work))
					})
				}
			}
			if name == "wiped" || name == "restarted" {
				before.Wait()
			}
			harm(t, q.Servers[0])
			harm(t, q.Servers[3])
			close(harmed)
			all.Wait()
			assert.EqualValues(t, 200, x.count.Load())
		})
	}
}

// Without repair, the second loss ends the lock.
func TestQuorum_RepairsServersThatCameBackEmpty(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 5)
	require.NoError(t, q.Guard(t).WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
		for _, wiped := range [][]int{{0, 1}, {2, 3}, {4, 0}} {
			for _, i := range wiped {
				q.Servers[i].Client(t).FlushAll(ctx)
			}
			holdersBecome(t, q, 5)
		}
		return ctx.Err()
	}, guard.TTL(time.Second)))
	holdersBecome(t, q, 0)
}

// With All, one server that is down is too many. A server that is left says that the lock is held.
func TestQuorum_WithoutEnoughServersIsAStoreErrorAndNeverBusy(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	most, all := q.Guard(t), q.GuardOfAll(t, guard.StoreTimeout(2*time.Second))
	require.NoError(t, all.WithLock(t.Context(), testenv.Order, func(context.Context) error {
		assert.Equal(t, 3, q.Holders(t, order))
		return nil
	}))
	q.Servers[2].Kill()
	_, err := most.Acquire(t.Context(), testenv.Order)
	require.NoError(t, err)
	for _, g := range []*guard.Guard{all, q.Guard(t, guard.StoreTimeout(2*time.Second))} {
		err = g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait())
		if g == all {
			require.ErrorContains(t, err, "1 of 3 servers failed")
			require.ErrorContains(t, err, "connection refused")
			q.Servers[1].Kill()
		} else {
			require.ErrorContains(t, err, "2 of 3 servers failed")
		}
		require.ErrorIs(t, err, guard.ErrStore)
		require.NotErrorIs(t, err, guard.ErrBusy)
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait(), guard.FailOpen()))
	}
}

// The store is closed after its Guards. None of both waits for servers that hang. What had been
// sent by then, the servers may execute when they go on. Every lock is free after its ttl at the latest.
func TestQuorum_ClosesThoughItsServersHang(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	store := q.Store(t)
	g, another := testenv.GuardOnStore(t, store, guard.TTL(5*time.Second)), testenv.GuardOnStore(t, store, guard.TTL(time.Second))
	lease, err := g.Acquire(t.Context(), testenv.Order)
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoError(t, another.WithLock(t.Context(), guard.Key("other"), testenv.Nothing), "the store is open")
	waits := testenv.InBackground(func() error { return another.WithLock(t.Context(), testenv.Order, testenv.Nothing) })
	require.Eventually(t, func() bool { return testenv.Queued(another) == 1 }, testenv.Patience, time.Millisecond)
	for _, s := range q.Servers {
		require.NoError(t, s.Pause())
	}
	closed := testenv.InBackground(func() error { return errors.Join(another.Close(), store.Close()) })
	require.NoError(t, closed(t))
	require.ErrorIs(t, waits(t), guard.ErrClosed)
	for _, s := range q.Servers {
		require.NoError(t, s.Resume())
	}
	require.ErrorIs(t, lease.Release(t.Context()), guard.ErrClosed)
	holdersBecome(t, q, 0)
}

// Two servers lag the third, by more than their fences show: those are one above the
// last one, which is ahead of their clocks. What the third one minted has to be known to them.
func TestQuorum_FencesAgreeThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	const ttl = 200 * time.Millisecond
	last := time.Now().Add(time.Minute)
	for i, s := range q.Servers {
		fence := last
		if i == 0 {
			fence = last.Add(ttl / 4) // less than what needs a command of its own
		}
		s.Client(t).Do(t.Context(), "zadd", "redlatch:{order:42}:ended", fence.UnixMicro(), "@fence")
	}
	g := q.GuardOfAll(t) // the third is one of those that grant
	lease, err := g.Acquire(t.Context(), testenv.Order, guard.TTL(ttl), guard.MaxHold(ttl))
	require.NoError(t, err)
	high := lease.Fence()
	require.Greater(t, high, uint64(last.Add(ttl/4).UnixMicro()))
	q.Servers[0].Kill()
	<-lease.Context().Done() // as if its holder had crashed: nothing is released in time
	require.NoError(t, q.Guard(t).WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
		fence, _ := guard.Fence(ctx)
		assert.Greater(t, fence, high)
		return nil
	}))
	_ = lease.Release(t.Context())
}

// A server takes the quick way of the scripts, also for a key that was used before, is sent one script
// to acquire and one to release, and keeps no tombstone.
func TestQuorum_CycleIsLean(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	g, clients := q.Guard(t), q.Clients(t)
	for range 2 { // the first cycle loads the scripts
		for _, c := range clients {
			require.NoError(t, c.ConfigResetStat(t.Context()).Err())
		}
		l, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		holdersBecome(t, q, 3)
		require.NoError(t, l.Release(t.Context()))
		holdersBecome(t, q, 0)
	}
	require.Equal(t, 6, q.Scripts(t))
	for _, c := range clients {
		stats, err := c.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		assert.False(t, strings.Contains(stats, "cmdstat_hrandfield") || strings.Contains(stats, "cmdstat_zrem"), "the slow way looks who is inside")
		assert.Zero(t, c.Exists(t.Context(), "redlatch:{order:42}:ended").Val())
	}
}
