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
