package inspect_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A glob is compared with each key: a long one keeps the process busy for minutes.
func TestBounds_MatchIsBounded(t *testing.T) {
	t.Parallel()
	i := inspect.New(redistest.Start(t).Client(t))
	for _, err := range i.All(t.Context(), strings.Repeat("*", 512)) {
		require.NoError(t, err)
	}
	var failures []error
	for _, err := range i.All(t.Context(), strings.Repeat("*", 513)) {
		failures = append(failures, err)
	}
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0], guard.ErrOption)
	assert.ErrorContains(t, failures[0], "match")
	assert.ErrorContains(t, failures[0], "513 bytes, the longest is 512")
}

// endsByErr is a context that ends without a signal: only a look at Err finds out.
type endsByErr struct {
	context.Context
	over atomic.Bool
}

func (c *endsByErr) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// ends ends a context as soon as SCAN is answered.
type ends struct{ ctx *endsByErr }

func (ends) DialHook(next redis.DialHook) redis.DialHook { return next }

func (ends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (e ends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		e.ctx.over.Store(cmd.Name() == "scan")
		return err
	}
}

func TestBounds_AllHeedsItsContextBetweenKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	hold(t, guardOn(t, s.Client(t)), "k")
	rdb := s.Client(t)
	ctx := &endsByErr{Context: t.Context()}
	rdb.AddHook(ends{ctx})
	var failures []error
	for info, err := range inspect.New(rdb).All(ctx, "[a]") {
		assert.Empty(t, info.Key)
		failures = append(failures, err)
	}
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0], context.Canceled)
	require.ErrorIs(t, failures[0], guard.ErrStore)
}

// The second try would say that the hold was not there: it is gone by then.
func TestBounds_ABreakIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := hold(t, guardOn(t, s.Client(t)), "k", guard.TTL(time.Second)) // its renewal finds out
	fence := fenceOf(t, inspect.New(s.Client(t)), "k")
	proxy := redistest.NewProxy(t, s.Addr())
	i := inspect.New(proxy.Client(t, func(o *redis.Options) { o.MaxRetries = 3 }))
	there, err := i.Break(t.Context(), "k", fence+1)
	require.NoError(t, err, "Redis knows the script")
	require.False(t, there)

	fired := proxy.SwallowReply(redistest.Command("evalsha"), 1)
	there, err = i.Break(t.Context(), "k", fence)
	require.ErrorIs(t, err, guard.ErrStore)
	require.False(t, there)
	<-fired
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrLost)
}

// Pages and logs name the Redis, and nothing that lets anybody in.
func TestBounds_AnInspectorSaysWhereItLooks(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}, Password: "s3cret"})
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, Password: "s3cret", DB: 2})
	single := redis.NewClient(&redis.Options{Addr: "cache.example:6379", Username: "us3r", Password: "s3cret", DB: 3})
	defer func() { _, _, _ = cluster.Close(), sentinel.Close(), single.Close() }()
	for want, i := range map[string]*inspect.Inspector{
		"Redis at cache.example:6379, database 3, prefix shop": inspect.New(single, inspect.Prefix("shop")),
		"Redis Cluster at a:1, b:2, prefix guard":              inspect.New(cluster),
		"Redis found by Sentinel, database 2, prefix guard":    inspect.New(sentinel),
		"no Redis": nil,
	} {
		assert.Equal(t, want, i.String())
	}
	assert.Equal(t, "no Redis", inspect.New(nil).String())
	assert.Equal(t, "no Redis", new(inspect.Inspector).String())
}
