package redisconn_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Each command of a lock, taken and entered again, has its reply lost once.
func clusterLostReplies(t *testing.T, c *redistest.Cluster) {
	proxies, through := c.Proxied(t)
	rdb := c.Client(t)
	g, other := clusterGuard(t, c.Client(t, through)), clusterGuard(t, rdb)
	for n, command := range []string{"acquire", "enter", "leave", "release"} {
		t.Run(command, func(t *testing.T) {
			name := "swallowed:" + command
			key, lock := guard.Key(name), clusterLock(name)
			depths := func(ctx context.Context, want string) {
				l, _ := guard.FromContext(ctx)
				depth, _, _ := strings.Cut(rdb.HGet(ctx, lock, l.Owner()).Val(), " ")
				assert.Equal(t, want, depth)
			}
			lost := proxies[c.Primary(lock)].SwallowReply(redistest.Contains(lock), n+1)
			require.NoError(t, g.WithLock(t.Context(), key, func(ctx context.Context) error {
				depths(ctx, "1")
				err := g.WithLock(ctx, key, func(ctx context.Context) error { depths(ctx, "2"); return nil })
				depths(ctx, "1")
				return err
			}))
			<-lost
			assert.Zero(t, rdb.Exists(t.Context(), lock).Val())
			require.NoError(t, other.WithLock(t.Context(), key, func(context.Context) error { return nil }, guard.NoWait()))
		})
	}
}

func clusterLostRenewal(t *testing.T, c *redistest.Cluster) {
	const ttl = 3 * time.Second
	proxies, through := c.Proxied(t)
	lock, r := clusterLock("renewal"), &guardtest.Recorder{}
	g := clusterGuard(t, c.Client(t, through), guard.Observe(r))
	l, err := g.Acquire(t.Context(), guard.Key("renewal"), guard.TTL(ttl))
	require.NoError(t, err)
	<-proxies[c.Primary(lock)].SwallowReply(redistest.Contains(lock), 1)
	require.Eventually(t, func() bool { return len(r.Events(guard.Renewal)) > 0 }, testenv.Patience, time.Millisecond, "it is repeated")
	assert.NotEmpty(t, r.Events(guard.StoreFailure))
	require.NoError(t, l.Release(t.Context()), "it is repeated in time")
}

// An acquire that arrives after its caller gave up takes nothing.
func clusterLateRequests(t *testing.T, c *redistest.Cluster) {
	proxies, through := c.Proxied(t)
	rdb := c.Client(t)
	g := clusterGuard(t, c.Client(t, through))
	lock := clusterLock("late")
	proxy := proxies[c.Primary(lock)]
	held, letGo := proxy.HoldRequest(redistest.Contains(lock))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- g.WithLock(ctx, guard.Key("late"), func(context.Context) error { return nil }) }()
	<-held
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	// It is abandoned on another connection, before it arrives.
	require.Eventually(t, func() bool {
		return rdb.ZCount(t.Context(), lock+":queue", "-inf", "(0").Val() == 1
	}, 10*time.Second, 5*time.Millisecond)
	letGo()
	require.Never(t, func() bool { return rdb.Exists(t.Context(), lock).Val() > 0 }, 200*time.Millisecond, 5*time.Millisecond)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("late"), func(context.Context) error { return nil }, guard.NoWait()))
}

// All connections fall silent at once, idle ones included, as when a firewall forgets
// them. The first that times out is enough to know.
func clusterHalfOpen(t *testing.T, c *redistest.Cluster) {
	const ttl = 1500 * time.Millisecond
	proxies, through := c.Proxied(t)
	r := &guardtest.Recorder{}
	g := clusterGuard(t, c.Client(t, through), guard.Observe(r), guard.StoreTimeout(time.Minute))
	l, err := g.Acquire(t.Context(), guard.Key("half"), guard.TTL(ttl))
	require.NoError(t, err)
	subscriptions := func() (n int64) {
		for _, s := range c.Nodes() {
			rdb := s.Client(t)
			for _, channel := range rdb.PubSubChannels(t.Context(), "guard:grant:*").Val() {
				n += rdb.PubSubNumSub(t.Context(), channel).Val()[channel]
			}
		}
		return n
	}
	waiting := make(chan error, 1)
	go func() {
		waiting <- g.WithLock(t.Context(), guard.Key("half"), func(context.Context) error { return nil })
	}()
	var busy sync.WaitGroup
	for _, key := range clusterKeys("connections", 60) {
		busy.Go(func() {
			for range 20 {
				assert.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(context.Context) error { return nil }))
			}
		})
	}
	busy.Wait()
	for _, p := range proxies {
		p.HalfOpen()
	}
	before, start := subscriptions(), time.Now()
	require.NoError(t, g.WithLock(t.Context(), guard.Key("connections:0"), func(context.Context) error { return nil }))
	assert.Less(t, time.Since(start), 15*time.Second, "however long the StoreTimeout")
	require.Eventually(t, func() bool { return subscriptions() > before }, 10*time.Second, 50*time.Millisecond,
		"the subscription is replaced, while Redis believes in the old one")
	time.Sleep(time.Until(start.Add(2 * ttl)))
	require.NoError(t, l.Err())
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, <-waiting)
	assert.NotEmpty(t, r.Events(guard.StoreFailure), "the connections did fall silent")
}

// A lock that nobody else wants is two round trips, one that is entered again another two,
// and from a release to the next owner elsewhere it is two, too.
func clusterRoundTrips(t *testing.T, c *redistest.Cluster) {
	const delay = 20 * time.Millisecond
	proxies, through := c.Proxied(t)
	g, other := clusterGuard(t, c.Client(t, through)), clusterGuard(t, c.Client(t, through))
	rdb, key := c.Client(t), guard.Key("round-trips")
	none := func(context.Context) error { return nil }
	alone := func() time.Duration {
		start := time.Now()
		assert.NoError(t, g.WithLock(t.Context(), key, none))
		return time.Since(start)
	}
	nested := func() time.Duration {
		start := time.Now()
		assert.NoError(t, g.WithLock(t.Context(), key, func(ctx context.Context) error { return g.WithLock(ctx, key, none) }))
		return time.Since(start)
	}
	var ending sync.WaitGroup
	defer ending.Wait()
	handedOver := func() time.Duration {
		held, err := g.Acquire(t.Context(), key)
		require.NoError(t, err)
		got := make(chan time.Time)
		ending.Go(func() {
			assert.NoError(t, other.WithLock(t.Context(), key, func(context.Context) error { got <- time.Now(); return nil }))
		})
		require.Eventually(t, func() bool { return rdb.ZCard(t.Context(), clusterLock("round-trips")+":queue").Val() == 1 },
			10*time.Second, time.Millisecond)
		start := time.Now()
		ending.Go(func() { assert.NoError(t, held.Release(context.Background())) })
		return (<-got).Sub(start)
	}
	for name, test := range map[string]struct {
		run        func() time.Duration
		roundTrips float64
	}{"alone": {alone, 2}, "nested": {nested, 4}, "handed over": {handedOver, 2}} {
		test.run() // opens connections
		for _, p := range proxies {
			p.Delay(delay)
		}
		assert.InDelta(t, test.roundTrips, fewest(test.run, delay, test.roundTrips+0.8), 0.8, name)
		for _, p := range proxies {
			p.Delay(0)
		}
	}
}
