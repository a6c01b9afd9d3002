package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A value under a lock's key that is no lock is busy. It stays as it is until its ttl has passed.
func TestForeign_UnknownValueIsBusy(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(ctx context.Context, c redis.Cmdable) error{
		"an operator's hash": func(ctx context.Context, c redis.Cmdable) error {
			return c.HSet(ctx, lockKey, "other", 1).Err()
		},
		"a hash with our owners": func(ctx context.Context, c redis.Cmdable) error {
			return c.HSet(ctx, lockKey, "x-1", 1, "a-2.1", 1).Err()
		},
		"a hash with our owner": func(ctx context.Context, c redis.Cmdable) error { return c.HSet(ctx, lockKey, "x-1", 1).Err() },
		"a string":              func(ctx context.Context, c redis.Cmdable) error { return c.Set(ctx, lockKey, "token", 0).Err() },
		"a list":                func(ctx context.Context, c redis.Cmdable) error { return c.RPush(ctx, lockKey, "not ours").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onCrowdedStores(t, func(s crowdedStore) {
				require.NoError(s, put(s.Context(), s.direct))
				before := s.direct.Dump(s.Context(), lockKey).Val()
				busy := func() {
					for _, owner := range []string{"a-2.1", "x-1"} {
						for _, queue := range []bool{false, true} {
							c := claimOf("k", owner)
							c.Queue = queue
							alone, err := s.Acquire(s.Context(), c)
							together, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{c, claimOf("o", "o-1")}, nil)
							for i, r := range []guardstore.ClaimReply{alone, together[0]} {
								require.NoError(s, []error{err, errs[0]}[i])
								require.Equal(s, guardstore.ClaimBusy, r.Status)
								require.Equal(s, queue, r.Ticket > 0)
								require.Greater(s, r.Remaining, time.Hour)
							}
						}
					}
					require.Equal(s, before, s.direct.Dump(s.Context(), lockKey).Val(), "it stays as it is")
				}
				busy() // no claim waits
				busy() // two do
				for _, owner := range []string{"x-1", "a-2.1"} {
					r, err := s.Release(s.Context(), guardstore.Release{Key: "k", Owner: owner, TTL: time.Minute})
					require.NotEqual(s, guardstore.ReleaseDone, r.Status)
					if err != nil {
						require.ErrorContains(s, err, "WRONGTYPE")
					}
				}
				require.Zero(s, s.direct.ZCard(s.Context(), queueKey).Val(), "a claim that waited leaves")
				busy()
				require.NoError(s, s.direct.Del(s.Context(), lockKey).Err()) // its ttl has passed
				s.take(claimOf("k", "x-1"))
			})
		})
	}
}

// A claim that waits for a lock that has no ttl asks for it as for any other.
func TestForeign_ALockWithoutAnEndIsAskedForAsAnyOther(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	require.NoError(t, s.Admin.HSet(t.Context(), lockKey, "other", 1).Err())
	g := s.Guard()
	s.Release(s.Acquire(g, "open the subscription"))
	s.ResetCommands()
	err := g.WithLock(t.Context(), guard.Key("k"), testenv.Nothing, guard.Wait(3*time.Second))
	require.ErrorIs(t, err, guard.ErrBusy)
	assert.LessOrEqual(t, s.Commands()["evalsha"], 10)
	s.AwaitQueue("k", 0)
}

// A Redis key beside the lock's is of another type. The error names the lock, and the value
// stays as it is. The last one is needed only where the lock is taken.
func TestForeign_ARedisKeyOfAnotherTypeIsAStoreError(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.StoreTimeout(2*testenv.Patience))
	for _, suffix := range []string{":queue", ":ended", ":seen"} {
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

// A lock that is held is overwritten. Its lease ends in time, those that are renewed in the same
// pipeline do not suffer, and what was written stays.
func TestForeign_ALockThatIsOverwrittenIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.TTL(800*time.Millisecond))
	neighbour, err := r.Acquire(t.Context(), guard.Key("neighbour"))
	require.NoError(t, err)
	err = r.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		require.NoError(t, r.Direct.Set(ctx, lockKey, "not ours", 0).Err())
		testenv.Await(t, ctx.Done())
		return nil
	})
	require.ErrorIs(t, err, guard.ErrLost)
	require.ErrorContains(t, err, "WRONGTYPE")
	assert.Equal(t, "not ours", r.Direct.Get(context.WithoutCancel(t.Context()), lockKey).Val())
	require.NoError(t, neighbour.Err())
	require.NoError(t, neighbour.Release(t.Context()))
	require.NoError(t, r.Direct.Del(t.Context(), lockKey).Err())
}
