package redisstore_test

import (
	"context"
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

func TestReplicas_KnowOfAHold(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.Replicated(t)
	g, err := guard.New(primary.Client(t), guard.Replicas(1, 500*time.Millisecond))
	require.NoError(t, err)
	defer g.Close()
	other := replica.Client(t)
	for range 3 {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
			lease, _ := guard.FromContext(ctx)
			assert.Regexp(t, "^1 ", other.HGet(ctx, "redlatch:{order:42}", testenv.Owner(lease)).Val(), "before the work began")
			return nil
		}))
	}
}

func TestReplicas_TooFewReplicasIsNotAcquired(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.Replicated(t)
	rdb := primary.Client(t)
	g, err := guard.New(rdb, guard.Replicas(1, 50*time.Millisecond), guard.StoreTimeout(400*time.Millisecond))
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, replica.Pause())
	testenv.Eventually(t, func() bool { // the last attempt may have had no time left for an answer
		err = g.WithLock(t.Context(), guard.Key("order:42"), func(context.Context) error {
			t.Error("no replica knows of it")
			return nil
		})
		require.ErrorIs(t, err, guard.ErrStore)
		return strings.Contains(err.Error(), "0 of 1 replicas")
	}, "the error does not say why")
	assert.Eventually(t, func() bool { return rdb.Exists(t.Context(), "redlatch:{order:42}").Val() == 0 },
		testenv.Patience, 5*time.Millisecond, "given back")
	require.NoError(t, replica.Resume())
	require.Eventually(t, func() bool {
		return g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing) == nil
	}, 10*time.Second, 10*time.Millisecond)
}

// Redis grants the lock and refuses WAIT: the Guard gives the lock back.
func TestReplicas_WithoutTheRightToWaitALockIsGivenBack(t *testing.T) {
	t.Parallel()
	limited := limitedClient(t, "~*", "&*", "+@all", "-wait")
	g, err := guard.New(limited, guard.Replicas(1, 50*time.Millisecond), guard.StoreTimeout(200*time.Millisecond))
	require.NoError(t, err)
	defer g.Close()
	err = g.WithLock(t.Context(), guard.Key("order:42"), func(context.Context) error {
		t.Error("it is not known which replicas know of it")
		return nil
	})
	require.ErrorIs(t, err, guard.ErrStore)
	require.ErrorContains(t, err, "waiting for replicas: NOPERM")
	assert.Eventually(t, func() bool { return limited.Exists(t.Context(), "redlatch:{order:42}").Val() == 0 },
		testenv.Patience, 5*time.Millisecond, "held by no caller")
}

// A replica may take as long as it was given, and longer than an attempt without replicas takes.
func TestReplicas_AnAttemptLastsAsLongAsTheWaitForReplicas(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.Replicated(t)
	rdb, seen := primary.Client(t), testenv.NewWatcher()
	g, err := guard.New(rdb, guard.Replicas(1, 5*time.Second), guard.StoreTimeout(20*time.Second), guard.Observe(seen))
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, replica.Pause())
	begun := time.Now()
	acquired := testenv.InBackground(func() error { return g.WithLock(t.Context(), guard.Key("order:42"), testenv.Nothing) })
	testenv.Eventually(t, func() bool { return rdb.Exists(t.Context(), "redlatch:{order:42}").Val() == 1 }, "nothing was asked for")
	time.Sleep(time.Until(begun.Add(1500 * time.Millisecond))) // the replica is slow
	require.NoError(t, replica.Resume())
	require.NoError(t, acquired(t))
	failures, _ := seen.Count(guard.EventStoreFailure)
	assert.Zero(t, failures, "the first attempt was given up")
}

func TestReplicas_Bounds(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	for _, c := range []struct {
		client redis.UniversalClient
		opt    guard.Option
		want   string
	}{
		{rdb, guard.Replicas(0, time.Second), "0 is less than 1"},
		{rdb, guard.Replicas(1, 0), "timeout 0s is less than 1ms"},
		{rdb, guard.Replicas(1, 1001*time.Millisecond), "timeout 1.001s is more than 1s, half of StoreTimeout"},
		{cluster, guard.Replicas(1, time.Second), "is for one Redis with replicas"},
	} {
		_, err := guard.New(c.client, c.opt)
		var option *guard.OptionError
		require.ErrorAs(t, err, &option)
		assert.Contains(t, err.Error(), c.want)
	}
}
