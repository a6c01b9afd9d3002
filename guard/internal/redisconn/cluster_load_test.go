package redisconn_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// clusterPatience is how long work may stand still while servers fail, however busy the
// machine is.
const clusterPatience = 30 * time.Second

// clusterLoad is callers of several instances that want the same few keys all the time.
type clusterLoad struct {
	ledger  *clusterLedger
	keys    []string
	longest atomic.Int64 // call
	lost    atomic.Int64 // leases
	cancel  context.CancelFunc
	callers sync.WaitGroup
}

func startClusterLoad(t *testing.T, instances int, client func() redis.UniversalClient, ttl time.Duration) *clusterLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	load := &clusterLoad{ledger: newClusterLedger(), keys: clusterKeys("page", 6), cancel: cancel}
	for range instances {
		g := clusterGuard(t, client(), guard.StoreTimeout(10*time.Second), guard.TTL(ttl))
		for _, key := range load.keys {
			for range 4 {
				load.callers.Go(func() {
					for ctx.Err() == nil {
						load.call(t, ctx, g, key)
					}
				})
			}
		}
	}
	t.Cleanup(load.stop)
	return load
}

func (l *clusterLoad) call(t *testing.T, ctx context.Context, g *guard.Guard, key string) {
	start := time.Now()
	err := g.WithLock(ctx, guard.Key(key), func(ctx context.Context) error { return l.ledger.write(ctx, key) })
	for d := int64(time.Since(start)); ; {
		longest := l.longest.Load()
		if d <= longest || l.longest.CompareAndSwap(longest, d) {
			break
		}
	}
	if errors.Is(err, guard.ErrLost) {
		l.lost.Add(1)
	} else if ctx.Err() == nil {
		assert.NoError(t, err)
	}
}

// flows waits until every key was written often from now on.
func (l *clusterLoad) flows(t *testing.T) {
	t.Helper()
	for _, key := range l.keys {
		before := l.ledger.writes(key)
		require.Eventually(t, func() bool { return l.ledger.writes(key) >= before+20 }, clusterPatience, time.Millisecond)
	}
}

func (l *clusterLoad) stop() {
	l.cancel()
	l.callers.Wait()
}
