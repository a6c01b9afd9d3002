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
)

// foreign is what may be under a lock's key that is not a lock of ours.
var foreign = map[string]func(ctx context.Context, c redis.Cmdable, key string) error{
	"an operator's hash": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.HSet(ctx, key, "somebody", 1).Err()
	},
	"a hash with our owner": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.HSet(ctx, key, "x-1", 1).Err()
	},
	"a string": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.Set(ctx, key, "token", 0).Err()
	},
	"a list": func(ctx context.Context, c redis.Cmdable, key string) error {
		return c.RPush(ctx, key, "not ours").Err()
	},
}

// What is there and is not understood is somebody's: it stays as it is until its ttl is over.
func TestForeign_WhatIsNotUnderstoodIsBusy(t *testing.T) {
	t.Parallel()
	for name, put := range foreign {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onCrowdedStores(t, func(s crowdedStore) {
				require.NoError(s, put(s.Context(), s.direct, testenv.LockOf("k")))
				before := s.direct.Dump(s.Context(), testenv.LockOf("k")).Val()
				acquire := map[string]func(c guardstore.Claim) (guardstore.ClaimReply, error){
					"alone": func(c guardstore.Claim) (guardstore.ClaimReply, error) { return s.Acquire(s.Context(), c) },
					"in company": func(c guardstore.Claim) (guardstore.ClaimReply, error) {
						replies, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{c, claimOf("o", "o-1")}, nil)
						return replies[0], errs[0]
					},
				}
				busy := func() {
					for way, acquire := range acquire {
						for _, queue := range []bool{false, true} {
							c := claimOf("k", "x-1")
							c.Queue = queue
							r, err := acquire(c)
							require.NoError(s, err, way)
							require.Equal(s, guardstore.ClaimBusy, r.Status, way)
							require.Equal(s, queue, r.Ticket > 0, way)
							require.Greater(s, r.Remaining, time.Hour, way)
						}
					}
					require.Equal(s, before, s.direct.Dump(s.Context(), testenv.LockOf("k")).Val(), "it stays as it is")
				}
				busy() // nobody waits
				busy() // somebody does
				r, err := s.Release(s.Context(), guardstore.Release{Key: "k", Owner: "x-1", TTL: time.Minute})
				require.NotEqual(s, guardstore.ReleaseDone, r.Status)
				if err != nil {
					require.ErrorContains(s, err, "WRONGTYPE")
				}
				require.Zero(s, s.direct.ZCard(s.Context(), testenv.LockOf("k")+":queue").Val(), "who waited leaves")
				busy()

				require.NoError(s, s.direct.PExpire(s.Context(), testenv.LockOf("k"), 10*time.Millisecond).Err())
				for end := time.Now().Add(testenv.Patience); s.direct.Exists(s.Context(), testenv.LockOf("k")).Val() > 0; {
					require.True(s, time.Now().Before(end))
				}
				r2, err := s.Acquire(s.Context(), claimOf("k", "x-1"))
				require.NoError(s, err)
				require.Equal(s, guardstore.ClaimHeld, r2.Status)
			})
		})
	}
}

// Who waits for a lock that has no ttl asks for it as for any other.
func TestForeign_ALockWithoutAnEndIsAskedForAsAnyOther(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	require.NoError(t, s.Admin.HSet(t.Context(), testenv.LockOf("k"), "somebody", 1).Err())
	g := s.Guard()
	s.Visit(g, "open the subscription")
	s.ResetCommands()
	err := g.WithLock(t.Context(), guard.Key("k"), testenv.Nothing, guard.Wait(3*time.Second))
	require.ErrorIs(t, err, guard.ErrBusy)
	assert.LessOrEqual(t, s.Commands()["evalsha"], 10)
	assert.Equal(t, map[string]string{"somebody": "1"}, s.Admin.HGetAll(t.Context(), testenv.LockOf("k")).Val())
	s.AwaitQueue("k", 0)
}
