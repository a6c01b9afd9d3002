package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestBatch_OneOfManyReleases(t *testing.T) {
	t.Parallel()
	x := claimOf("k", "x-1")
	for name, c := range map[string]struct {
		prepare func(s crowdedStore) guardstore.Release
		want    guardstore.ReleaseStatus
		refused string
		next    string // who has the lock then
	}{
		"held": {prepare: func(s crowdedStore) guardstore.Release { return s.take(x) }, want: guardstore.ReleaseDone},
		"never held": {prepare: func(s crowdedStore) guardstore.Release {
			return guardstore.Release{Key: "k", Owner: "x-1", TTL: time.Minute, Fence: 17}
		}, want: guardstore.ReleaseLost},
		"held by another": {prepare: func(s crowdedStore) guardstore.Release {
			s.take(claimOf("k", "y-1"))
			return guardstore.Release{Key: "k", Owner: "x-1", TTL: time.Minute, Fence: 17}
		}, want: guardstore.ReleaseLost, next: "y-1"},
		"released before": {prepare: func(s crowdedStore) guardstore.Release {
			r := s.take(x)
			_, err := s.Release(s.Context(), r)
			require.NoError(s, err)
			return r
		}, want: guardstore.ReleaseAlready},
		"wanted": {prepare: func(s crowdedStore) guardstore.Release {
			r := s.take(x)
			listen := s.direct.Subscribe(s.Context(), "guard:grant:y")
			s.Cleanup(func() { _ = listen.Close() })
			_, err := listen.Receive(s.Context())
			require.NoError(s, err)
			waiting := claimOf("k", "y-1")
			waiting.Queue = true
			busy, err := s.Acquire(s.Context(), waiting)
			require.NoError(s, err)
			require.Equal(s, guardstore.ClaimBusy, busy.Status)
			return r
		}, want: guardstore.ReleaseDone, next: "y-1"},
		"of another type": {prepare: func(s crowdedStore) guardstore.Release {
			r := s.take(x)
			require.NoError(s, s.direct.Del(s.Context(), testenv.LockOf("k")).Err())
			require.NoError(s, s.direct.RPush(s.Context(), testenv.LockOf("k"), "not ours").Err())
			return r
		}, refused: "WRONGTYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onCrowdedStores(t, func(s crowdedStore) {
				before, after := s.take(claimOf("before", "b-1")), s.take(claimOf("after", "a-1"))
				_, released, errs := redisstore.Together(s.Context(), s.Store, nil, []guardstore.Release{before, c.prepare(s), after})
				for _, i := range []int{0, 2} {
					require.NoError(s, errs[i])
					require.Equal(s, guardstore.ReleaseDone, released[i].Status)
				}
				require.Zero(s, s.direct.Exists(s.Context(), testenv.LockOf("before"), testenv.LockOf("after")).Val())
				if c.refused != "" {
					var refused *guardstore.RefusedError
					require.ErrorAs(s, errs[1], &refused)
					require.ErrorContains(s, errs[1], c.refused)
					require.Equal(s, []string{"not ours"}, s.direct.LRange(s.Context(), testenv.LockOf("k"), 0, -1).Val())
					return
				}
				require.NoError(s, errs[1])
				require.Equal(s, c.want, released[1].Status)
				hash := s.direct.HGetAll(s.Context(), testenv.LockOf("k")).Val()
				if c.next == "" {
					require.Empty(s, hash)
				} else {
					require.Contains(s, hash, c.next)
				}
			})
		})
	}
}

// A server whose clock was set back remembers the highest fence until the clock has caught
// up, whoever takes and releases the lock meanwhile, and in whatever company.
func TestBatch_AFenceAheadOfTheClockIsRememberedUntilThen(t *testing.T) {
	t.Parallel()
	const ahead = time.Hour
	onCrowdedStores(t, func(s crowdedStore) {
		now, err := s.direct.Time(s.Context()).Result()
		require.NoError(s, err)
		highest := uint64(now.Add(ahead).UnixMicro()) //nolint:gosec // positive
		require.NoError(s, s.direct.Set(s.Context(), testenv.LockOf("k")+":last", strconv.FormatUint(highest, 10)+" z-1", ahead+time.Minute).Err())
		lives := func() time.Duration { return s.direct.PTTL(s.Context(), testenv.LockOf("k")+":last").Val() }

		late, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{claimOf("k", "z-1"), claimOf("other", "o-1")}, nil)
		require.NoError(s, errs[0])
		require.Equal(s, guardstore.ClaimFinished, late[0].Status)
		require.Greater(s, lives(), ahead, "a late command changes nothing")

		for n := range 3 {
			c := claimOf("k", "x-"+strconv.Itoa(n))
			c.TTL = 10 * time.Second
			claimed, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{c, claimOf("other", "o-1")}, nil)
			require.NoError(s, errs[0])
			require.Greater(s, claimed[0].Fence, highest)
			highest = claimed[0].Fence
			require.Greater(s, lives(), ahead, "taken")
			_, released, errs := redisstore.Together(s.Context(), s.Store, nil, []guardstore.Release{releaseOf(c, claimed[0]), {Key: "none", Owner: "n-1", TTL: time.Minute, Fence: 1}})
			require.NoError(s, errs[0])
			require.Equal(s, guardstore.ReleaseDone, released[0].Status)
			require.Greater(s, lives(), ahead, "released")
		}
	})
}

// The highest fence is remembered, whether the server minted it or the owner handed its
// lock over under it.
func TestBatch_ManyReleasesRememberTheHighestFence(t *testing.T) {
	t.Parallel()
	onCrowdedStores(t, func(s crowdedStore) {
		low, high := s.take(claimOf("low", "x-1")), s.take(claimOf("high", "x-2"))
		minted := low.Fence
		low.Fence, high.Fence = 1, high.Fence+1000
		_, released, errs := redisstore.Together(s.Context(), s.Store, nil, []guardstore.Release{low, high})
		for i := range released {
			require.NoError(s, errs[i])
			require.Equal(s, guardstore.ReleaseDone, released[i].Status)
		}
		for key, want := range map[string]string{
			"low": strconv.FormatUint(minted, 10) + " x-1 ", "high": strconv.FormatUint(high.Fence, 10) + " x-2 ",
		} {
			require.Contains(s, s.direct.Get(s.Context(), testenv.LockOf(key)+":last").Val(), want)
		}
	})
}

// What is wrong with one does not make the others go by themselves.
func TestBatch_OneOfManyIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "guard")
	wrong := claimOf("wrong", "x-1")
	require.NoError(t, s.Admin.RPush(t.Context(), testenv.LockOf("wrong")+":last", "not ours").Err())
	s.ResetCommands()
	claims := []guardstore.Claim{claimOf("a", "x-2"), wrong, claimOf("b", "x-3")}
	claimed, _, errs := redisstore.Together(t.Context(), store, claims, nil)
	require.Error(t, errs[1])
	assert.Equal(t, 2, s.Scripts())

	require.NoError(t, s.Admin.RPush(t.Context(), testenv.LockOf("wrong"), "not ours").Err())
	s.ResetCommands()
	_, _, errs = redisstore.Together(t.Context(), store, nil, []guardstore.Release{
		releaseOf(claims[0], claimed[0]), {Key: "wrong", Owner: "x-1", TTL: time.Minute, Fence: 1}, releaseOf(claims[2], claimed[2]),
	})
	require.NoError(t, errs[0])
	require.Error(t, errs[1])
	require.NoError(t, errs[2])
	assert.Equal(t, 2, s.Scripts())
}

// When memory is full nothing is taken, and everything can be released.
func TestBatch_ManyWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	s := crowdedStore{t, testenv.RedisStore(t, client, "guard"), client}
	releases := []guardstore.Release{s.take(claimOf("a", "x-1")), s.take(claimOf("b", "x-2"))}
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	claimed, released, errs := redisstore.Together(t.Context(), s.Store, []guardstore.Claim{claimOf("c", "x-3"), claimOf("d", "x-4")}, releases)
	for i, r := range released {
		require.NoError(t, errs[len(claimed)+i])
		require.Equal(t, guardstore.ReleaseDone, r.Status)
	}
	for i := range claimed {
		require.ErrorContains(t, errs[i], "OOM")
	}
	require.Zero(t, client.Exists(t.Context(), testenv.LockOf("c"), testenv.LockOf("d"), testenv.LockOf("c")+":last").Val())
}

// comeAndGoTogether takes free locks and gives them back.
func comeAndGoTogether(t *testing.T, store guardstore.Store, claims []guardstore.Claim) {
	t.Helper()
	claimed, _, errs := redisstore.Together(t.Context(), store, claims, nil)
	releases := make([]guardstore.Release, len(claims))
	for i, r := range claimed {
		require.NoError(t, errs[i])
		require.Equal(t, guardstore.ClaimHeld, r.Status)
		releases[i] = releaseOf(claims[i], r)
	}
	_, released, errs := redisstore.Together(t.Context(), store, nil, releases)
	for i, r := range released {
		require.NoError(t, errs[i])
		require.Equal(t, guardstore.ReleaseDone, r.Status)
	}
}

// A Redis that was restarted or flushed knows no scripts.
func TestBatch_ManyWhoseScriptIsNotKnown(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "guard")
	require.NoError(t, s.Admin.ScriptFlush(t.Context()).Err())
	s.ResetCommands()
	claims := []guardstore.Claim{claimOf("a", "x-1"), claimOf("b", "x-2"), claimOf("c", "x-3")}
	comeAndGoTogether(t, store, claims)
	calls := s.Commands()
	assert.Equal(t, 2, calls["evalsha"])
	assert.Equal(t, 2, calls["eval"])
}

// Behind one address there may be a cluster, which refuses keys of many slots in one
// command. Each goes by itself then, from the second time on at once.
func TestBatch_ManyOnAClusterBehindOneAddress(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	var keys []string
	node := c.Primary("guard:{k0}")
	for i := 0; len(keys) < 3; i++ {
		if key := "k" + strconv.Itoa(i); c.Primary("guard:{"+key+"}") == node {
			keys = append(keys, key)
		}
	}
	client := node.Client(t, func(o *redis.Options) { o.DB = 0 })
	store := testenv.RedisStore(t, client, "guard")
	for round := range 2 {
		require.NoError(t, client.ConfigResetStat(t.Context()).Err())
		claims := make([]guardstore.Claim, len(keys))
		for i, key := range keys {
			claims[i] = claimOf(key, "x"+strconv.Itoa(i)+"-"+strconv.Itoa(round))
		}
		comeAndGoTogether(t, store, claims)
		if round > 0 {
			info, err := client.Info(t.Context(), "errorstats").Result()
			require.NoError(t, err)
			require.NotContains(t, info, "CROSSSLOT")
		}
	}
}

// What waited for its turn beyond its deadline would be answered to nobody. It is not sent.
func TestBatch_ManyThatAreTooLateAreNotSent(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "guard")
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	s.ResetCommands()
	_, _, errs := redisstore.Together(late, store,
		[]guardstore.Claim{claimOf("a", "x-1"), claimOf("b", "x-2")},
		[]guardstore.Release{releaseOf(claimOf("c", "x-3"), guardstore.ClaimReply{Fence: 1})})
	for _, err := range errs {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.Zero(t, s.Scripts())
}
