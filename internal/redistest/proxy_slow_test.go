package redistest

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProxySlow_ProxyDelaysRequestsButNotEachOfAPipeline(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	c := p.Client(t, once)
	ctx := t.Context()
	require.NoError(t, c.Ping(ctx).Err())

	p.Delay(instant)
	start := time.Now()
	require.NoError(t, c.Ping(ctx).Err())
	require.GreaterOrEqual(t, time.Since(start), instant)
	pipe := c.Pipeline()
	for range 100 {
		pipe.Ping(ctx)
	}
	start = time.Now()
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	require.Less(t, time.Since(start), 50*instant)
}

func TestProxySlow_ProxyThrottles(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	c := p.Client(t, once)
	require.NoError(t, c.Ping(t.Context()).Err())
	p.Throttle(20_000)
	start := time.Now()
	require.NoError(t, c.Echo(t.Context(), strings.Repeat("x", 1000)).Err())
	require.GreaterOrEqual(t, time.Since(start), 2*instant, "1000 bytes there and back")
	p.Throttle(0)
	require.NoError(t, c.Ping(t.Context()).Err())
}

func TestProxySlow_ProxyHalfOpen(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	c := p.Client(t, impatient)
	require.NoError(t, c.Ping(t.Context()).Err())
	p.HalfOpen()
	require.ErrorContains(t, c.Ping(t.Context()).Err(), "i/o timeout", "an open connection is silent")
	require.NoError(t, c.Ping(t.Context()).Err(), "a new one works")
}

func TestProxySlow_ProxyRefuses(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	c := p.Client(t, once)
	require.NoError(t, c.Ping(t.Context()).Err())
	accept := p.Refuse(t)
	require.Eventually(t, func() bool {
		return errors.Is(c.Ping(t.Context()).Err(), syscall.ECONNREFUSED)
	}, patience, time.Millisecond)
	accept()
	require.NoError(t, c.Ping(t.Context()).Err())
}
