package redistest

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestCluster_MovesASlotAndFailsOver(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	proxies, through := c.Proxied(t)
	rdb := c.Client(t, through)
	ctx := t.Context()
	for i := range 100 {
		require.NoError(t, rdb.Set(ctx, strconv.Itoa(i), i, 0).Err())
	}

	key := "7"
	m := c.Migrate(t, key)
	asking := proxies[m.To].SwallowReply(Command("asking"), 1)
	require.Equal(t, 1, m.Move(t, key))
	require.Equal(t, key, rdb.Get(ctx, key).Val(), "asked where it is now")
	await(t, asking)
	m.Finish(t)
	require.Same(t, m.To, c.Primary(key))
	require.Equal(t, key, rdb.Get(ctx, key).Val())

	require.EqualValues(t, 1, c.admin[m.To].Do(ctx, "wait", 1, 5000).Val())
	m.To.Kill()
	next := c.AwaitPrimary(t, key, m.To)
	require.NotSame(t, m.To, next)
	require.Eventually(t, func() bool {
		rdb.ReloadState(ctx) // by itself, it would do so in up to 10 s
		return rdb.Get(context.Background(), key).Val() == key
	}, 2*patience, formPoll)
}

func TestCluster_SentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	rdb := s.Client(t)
	ctx := t.Context()
	set := func(key string) error { return rdb.Set(context.Background(), key, 1, 0).Err() }
	require.NoError(t, set("replicated"))
	require.EqualValues(t, 2, rdb.Do(ctx, "wait", 2, 5000).Val())

	first := s.Primary()
	rejoin := s.Isolate(t)
	require.NoError(t, set("lost"))
	first.Kill()
	rejoin()
	require.Eventually(t, func() bool { return set("new") == nil }, 4*patience, formPoll)
	require.NotSame(t, first, s.AwaitPrimary(t, first))
	require.EqualValues(t, 1, rdb.Exists(ctx, "replicated").Val())
	require.ErrorIs(t, rdb.Get(ctx, "lost").Err(), redis.Nil)
}
