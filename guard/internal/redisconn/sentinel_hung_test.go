package redisconn_test

import (
	"context"
	"errors"
	"net"
	"strings"
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

// The sentinel that a client asks hangs, and does not hear of a failover. The Guard asks
// another one.
func TestSentinelHung_SentinelHangs(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	old, watchers := s.Primary(), s.Sentinels()
	var others atomic.Bool
	g := testenv.GuardOn(t, s.Client(t, func(o *redis.FailoverOptions) {
		o.ReadTimeout = 2500 * time.Millisecond
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !others.Load() && (addr == watchers[1].Addr() || addr == watchers[2].Addr()) {
				return nil, errors.New("not yet")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}))
	grant := func() error {
		return g.WithLock(t.Context(), guard.Key("hung"), testenv.Nothing)
	}
	require.NoError(t, grant())

	others.Store(true)
	require.NoError(t, watchers[0].Pause())
	teller := watchers[1].Client(t)
	require.NoError(t, teller.Do(t.Context(), "sentinel", "failover", redistest.MasterName).Err())
	next := s.AwaitPrimary(t, old)
	rdb := next.Client(t)
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	require.Eventually(t, func() bool {
		_ = grant() // by the old one, which works, or not
		return strings.Contains(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_evalsha:")
	}, sentinelPatience, 10*time.Millisecond)
}

// Sentinels hang: go-redis waits for each as long as the user's client does, and is on its
// way there when it dials, as it is when it only asks for the primary.
func TestSentinelHung_SentinelsThatHangHoldUpNoCall(t *testing.T) {
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
