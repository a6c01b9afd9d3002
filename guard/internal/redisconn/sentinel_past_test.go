package redisconn_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A server that takes over may be behind: it knows a holder and a queue of claims that are
// long over, all of them of instances that live. Nobody waits for each of these in turn.
func TestSentinelPast_SentinelClaimsOfThePastHoldUpNobody(t *testing.T) {
	t.Parallel()
	const ttl, instances = 2 * time.Second, 12
	s := redistest.Start(t)
	rdb := s.Client(t)
	key, lock := guard.Key("past"), clusterLock("past")
	guards := make([]*guard.Guard, instances)
	for i := range guards {
		guards[i] = clusterGuard(t, s.Client(t), guard.TTL(ttl))
	}
	ledger := newClusterLedger()
	write := func(ctx context.Context) error { return ledger.write(ctx, "past") }
	all := func() *sync.WaitGroup {
		var callers sync.WaitGroup
		for _, g := range guards[1:] {
			callers.Go(func() { assert.NoError(t, g.WithLock(t.Context(), key, write)) })
		}
		return &callers
	}

	held, err := guards[0].Acquire(t.Context(), key)
	require.NoError(t, err)
	callers := all()
	require.Eventually(t, func() bool { return rdb.ZCard(t.Context(), lock+":queue").Val() == instances-1 },
		10*time.Second, time.Millisecond)
	past := make(map[string]string)
	for _, k := range []string{lock, lock + ":queue", lock + ":seen"} {
		past[k], err = rdb.Dump(t.Context(), k).Result()
		require.NoError(t, err)
	}
	require.NoError(t, held.Release(t.Context()))
	callers.Wait()

	for k, dump := range past {
		lapse := time.Minute
		if k == lock {
			lapse = ttl
		}
		require.NoError(t, rdb.RestoreReplace(t.Context(), k, lapse, dump).Err())
	}
	start := time.Now()
	all().Wait()
	assert.Less(t, time.Since(start), ttl+5*time.Second)
	ledger.check(t)
	assert.Equal(t, 2*(instances-1), ledger.writes())
}
