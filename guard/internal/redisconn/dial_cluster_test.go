package redisconn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A client of a cluster dials the nodes.
func TestDialCluster_DialsOfAClusterThatHang(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, "--cluster-enabled", "yes")
	admin := node.Client(t)
	require.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testenv.Eventually(t, func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, "no cluster")
	for name, c := range map[string]struct {
		options func(s *stuck) *redis.ClusterOptions
		later   bool
	}{
		"at first": {func(s *stuck) *redis.ClusterOptions { return &redis.ClusterOptions{Dialer: s.dial} }, false},
		"later":    {func(s *stuck) *redis.ClusterOptions { return &redis.ClusterOptions{Dialer: s.dial} }, true},
		"in its own way to make clients": {func(s *stuck) *redis.ClusterOptions {
			return &redis.ClusterOptions{NewClient: func(o *redis.Options) *redis.Client {
				o.Dialer = s.dial
				return redis.NewClient(o)
			}}
		}, false},
		"over TLS": {func(*stuck) *redis.ClusterOptions {
			proxy, config := redistest.NewTLSProxy(t, node.Addr())
			proxy.Freeze()
			t.Cleanup(proxy.Thaw)
			return &redis.ClusterOptions{Addrs: []string{proxy.Addr()}, TLSConfig: config, DialTimeout: forEver}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStuck(t)
			defer s.letGo()
			o := c.options(s)
			if o.Addrs == nil {
				o.Addrs = []string{node.Addr()}
			}
			client := redis.NewClusterClient(o)
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			g := testenv.GuardOn(t, client, guard.StoreTimeout(time.Second))
			if c.later {
				connect(t, g)
			}
			s.is.Store(true)
			if c.later {
				require.NoError(t, admin.ClientKillByFilter(t.Context(), "type", "normal").Err())
			}
			_ = inTime(t, g)
		})
	}
}

// Sentinels hang: go-redis waits for each as long as the user's client does, and is on its
// way there when it dials, as it is when it only asks for the primary.
func TestDialCluster_SentinelsThatHangHoldUpNobody(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	slow := func(o *redis.FailoverOptions) { o.ReadTimeout = forEver }
	impatient := guard.StoreTimeout(time.Second)
	dialing, asking := testenv.GuardOn(t, s.Client(t, slow), impatient), testenv.GuardOn(t, s.Client(t, slow), impatient)
	connect(t, dialing)
	connect(t, asking)
	primary := s.Primary().Client(t)
	for _, w := range s.Sentinels() {
		require.NoError(t, w.Pause())
		defer func() { assert.NoError(t, w.Resume()) }()
	}
	for begun := time.Now(); time.Since(begun) < 1500*time.Millisecond; { // it asks after a second
		require.NoError(t, asking.WithLock(t.Context(), guard.Key("k"), testenv.Nothing))
	}
	closed := testenv.InBackground(asking.Close)
	require.NoError(t, closed(t))
	require.NoError(t, primary.ClientKillByFilter(t.Context(), "type", "normal").Err())
	_ = inTime(t, dialing)
}
