package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Somebody else uses a Redis key that stands beside the lock's. The error says which lock it
// is, and what is there stays as it is. The last one is needed only where the lock is taken.
func TestWrongType_ARedisKeyOfAnotherTypeIsAStoreError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.StoreTimeout(2*testenv.Patience))
	for _, suffix := range []string{":queue", ":last", ":seen"} {
		key := "k" + suffix
		foreign := testenv.LockOf(key) + suffix
		free := func() {}
		if suffix == ":seen" {
			free = r.TakenByAnother(t, key)
		}
		require.NoError(t, r.Direct.RPush(t.Context(), foreign, "not ours").Err())
		before := r.Direct.Keys(t.Context(), testenv.LockOf(key)+"*").Val()
		refuses(t, r.Guard, key, "WRONGTYPE")
		assert.Equal(t, []string{"not ours"}, r.Direct.LRange(t.Context(), foreign, 0, -1).Val())
		assert.ElementsMatch(t, before, r.Direct.Keys(t.Context(), testenv.LockOf(key)+"*").Val())
		require.NoError(t, r.Direct.Del(t.Context(), foreign).Err())
		free()
	}
}

// What stands where the last fence is remembered is no number. The clock of the server
// is enough for a fence.
func TestWrongType_ALastFenceThatIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t))
	for _, last := range []string{"not ours", "", "somebody-else-wrote-this here"} {
		require.NoError(t, r.Direct.Set(t.Context(), testenv.LockOf("k")+":last", last, 0).Err())
		require.NoError(t, r.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }))
	}
}

// Somebody overwrites a lock that is held. That lease ends, in time; those that are
// renewed in the same pipeline do not suffer; what was written stays.
func TestWrongType_ALockThatIsOverwrittenIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.TTL(800*time.Millisecond))
	neighbour, err := r.Acquire(t.Context(), guard.Key("neighbour"))
	require.NoError(t, err)
	err = r.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		require.NoError(t, r.Direct.Set(ctx, testenv.LockOf("k"), "not ours", 0).Err())
		testenv.Await(t, ctx.Done())
		return nil
	})
	require.ErrorIs(t, err, guard.ErrLost)
	require.ErrorContains(t, err, "WRONGTYPE")
	assert.Equal(t, "not ours", r.Direct.Get(context.WithoutCancel(t.Context()), testenv.LockOf("k")).Val())
	require.NoError(t, neighbour.Err())
	require.NoError(t, neighbour.Release(t.Context()))
	require.NoError(t, r.Direct.Del(t.Context(), testenv.LockOf("k")).Err())
}
