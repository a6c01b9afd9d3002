package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// company is a Store on one Redis whose every acquisition and release goes together with
// that of another lock.
type company struct {
	guardstore.Store

	tb testing.TB
	n  atomic.Int64
}

func (c *company) Acquire(ctx context.Context, claim guardstore.Claim) (guardstore.ClaimReply, error) {
	other := c.other()
	claims, _, errs := redisstore.Together(ctx, c.Store, []guardstore.Claim{other, claim}, nil)
	if errs[0] != nil {
		assert.ErrorIs(c.tb, errs[0], context.Canceled)
	} else {
		assert.Equal(c.tb, guardstore.ClaimHeld, claims[0].Status)
	}
	return claims[1], errs[1]
}

func (c *company) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	other := c.other()
	held, err := c.Store.Acquire(ctx, other)
	if err != nil {
		return guardstore.ReleaseReply{}, err
	}
	_, released, errs := redisstore.Together(ctx, c.Store, nil, []guardstore.Release{
		{Key: other.Key, Owner: other.Owner, TTL: other.TTL, Fence: held.Fence}, r,
	})
	if errs[0] != nil {
		assert.ErrorIs(c.tb, errs[0], context.Canceled)
	} else {
		assert.Equal(c.tb, guardstore.ReleaseDone, released[0].Status)
	}
	return released[1], errs[1]
}

func (c *company) other() guardstore.Claim {
	n := strconv.FormatInt(c.n.Add(1), 10)
	return guardstore.Claim{Key: "company:" + n, Owner: "company-" + n, TTL: 10 * time.Second, Queue: true}
}

// crowdedStore is a Store, and a look into its Redis.
type crowdedStore struct {
	*testing.T
	guardstore.Store
	direct redis.UniversalClient
}

// onCrowdedStores runs a test on the embedded Redis and on a real one.
func onCrowdedStores(t *testing.T, test func(s crowdedStore)) {
	t.Run("embedded", func(t *testing.T) {
		client := guardtest.NewRedis(t)
		test(crowdedStore{t, testenv.RedisStore(t, client, "redlatch"), client})
	})
	t.Run("real", func(t *testing.T) {
		client := redistest.Start(t).Client(t)
		test(crowdedStore{t, testenv.RedisStore(t, client, "redlatch"), client})
	})
}

func claimOf(key, owner string) guardstore.Claim {
	return guardstore.Claim{Key: key, Owner: owner, TTL: time.Minute}
}

func releaseOf(c guardstore.Claim, r guardstore.ClaimReply) guardstore.Release {
	return guardstore.Release{Key: c.Key, Owner: c.Owner, TTL: c.TTL, Fence: r.Fence}
}

func (s crowdedStore) take(c guardstore.Claim) guardstore.Release {
	s.Helper()
	r, err := s.Acquire(s.Context(), c)
	require.NoError(s, err)
	require.Equal(s, guardstore.ClaimHeld, r.Status)
	return releaseOf(c, r)
}

// pick gives some of the counts.
func pick(all map[string]int, names ...string) map[string]int {
	some := map[string]int{}
	for _, name := range names {
		some[name] = all[name]
	}
	return some
}

// Many commands are one call of the script, whatever their number.
func TestBatch_ManyAreOneScript(t *testing.T) {
	t.Parallel()
	const n = 50
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "redlatch")
	claims := make([]guardstore.Claim, n)
	for i := range claims {
		claims[i] = claimOf("many:"+strconv.Itoa(i), fmt.Sprintf("o%d-1", i))
		claims[i].TTL, claims[i].Metadata = 20*time.Second, "worker "+strconv.Itoa(i%2)
	}
	s.ResetCommands()
	claimed, _, errs := redisstore.Together(t.Context(), store, claims, nil)
	assert.Equal(t, 1, s.Scripts())
	assert.Equal(t, map[string]int{"exists": n, "time": 1, "hset": n, "pexpire": n, "evalsha": 1}, pick(s.Commands(), "exists", "time", "hset", "pexpire", "evalsha"))
	assert.Equal(t, 3*n+1, calledByScripts(s))
	grants, releases := make([]guardstore.Grant, n), make([]guardstore.Release, n)
	for i, r := range claimed {
		c := claims[i]
		require.NoError(t, errs[i])
		require.Equal(t, guardstore.ClaimHeld, r.Status)
		require.Equal(t, map[string]string{
			c.Owner: fmt.Sprint("1 ", r.Fence, " 20000 - ", c.Metadata),
		}, s.Admin.HGetAll(t.Context(), testenv.LockOf(c.Key)).Val())
		require.InDelta(t, 20*time.Second, s.Admin.PTTL(t.Context(), testenv.LockOf(c.Key)).Val(), float64(10*time.Second))
		grants[i] = guardstore.Grant{Key: c.Key, Owner: c.Owner, Fence: r.Fence, TTL: time.Minute, Depth: 2, Metadata: "renewed"}
		releases[i] = releaseOf(c, r)
		releases[i].Fence += uint64(i) // handed over i times
	}

	s.ResetCommands()
	renewed := store.Renew(t.Context(), grants)
	assert.Equal(t, 1, s.Scripts())
	assert.Equal(t, 3*n+1, calledByScripts(s))
	for i, r := range renewed {
		require.Equal(t, guardstore.RenewReply{Held: true}, r)
		require.Equal(t, "2", s.Holders(claims[i].Key)[claims[i].Owner])
	}

	s.ResetCommands()
	_, released, errs := redisstore.Together(t.Context(), store, nil, releases)
	assert.Equal(t, 1, s.Scripts())
	assert.Equal(t, 2*n, calledByScripts(s))
	for i, r := range released {
		require.NoError(t, errs[i])
		require.Equal(t, guardstore.ReleaseDone, r.Status)
	}
	assert.Empty(t, s.Admin.Keys(t.Context(), "redlatch:*").Val())
}

// Whatever one of many finds is its own affair.
func TestBatch_OneOfManyClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(s crowdedStore, key string)
		want    guardstore.ClaimStatus
		refused string
	}{
		"free":          {prepare: func(crowdedStore, string) {}, want: guardstore.ClaimHeld},
		"held":          {prepare: func(s crowdedStore, key string) { s.take(claimOf(key, "y-1")) }, want: guardstore.ClaimBusy},
		"mine":          {prepare: func(s crowdedStore, key string) { s.take(claimOf(key, "x-1")) }, want: guardstore.ClaimHeld},
		"after another": {prepare: func(s crowdedStore, key string) { s.comeAndGo(claimOf(key, "y-1"), false) }, want: guardstore.ClaimHeld},
		"tombstone":     {prepare: func(s crowdedStore, key string) { s.comeAndGo(claimOf(key, "x-1"), true) }, want: guardstore.ClaimFinished},
		"tombstones":    {prepare: func(s crowdedStore, key string) { s.comeAndGo(claimOf(key, "y-1"), true) }, want: guardstore.ClaimHeld},
		"behind another": {prepare: func(s crowdedStore, key string) {
			require.NoError(s, s.direct.ZAdd(s.Context(), testenv.LockOf(key)+":queue", redis.Z{Score: 1, Member: "y-1"}).Err())
			now, err := s.direct.Time(s.Context()).Result()
			require.NoError(s, err)
			require.NoError(s, s.direct.HSet(s.Context(), testenv.LockOf(key)+":seen", "y-1", now.UnixMicro()).Err())
			listen := s.direct.Subscribe(s.Context(), "redlatch:grant:y")
			s.Cleanup(func() { _ = listen.Close() })
			_, err = listen.Receive(s.Context())
			require.NoError(s, err)
		}, want: guardstore.ClaimBusy},
		"of another type": {prepare: func(s crowdedStore, key string) {
			require.NoError(s, s.direct.RPush(s.Context(), testenv.LockOf(key), "not ours").Err())
		}, want: guardstore.ClaimBusy},
		"fence of another type": {prepare: func(s crowdedStore, key string) {
			require.NoError(s, s.direct.RPush(s.Context(), testenv.LockOf(key)+":ended", "not ours").Err())
		}, refused: "WRONGTYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onCrowdedStores(t, func(s crowdedStore) {
				c.prepare(s, "k")
				x := claimOf("k", "x-1")
				x.Queue = true
				claims := []guardstore.Claim{claimOf("before", "b-1"), x, claimOf("after", "a-1")}
				claimed, _, errs := redisstore.Together(s.Context(), s.Store, claims, nil)
				for _, i := range []int{0, 2} {
					require.NoError(s, errs[i])
					require.Equal(s, guardstore.ClaimHeld, claimed[i].Status)
				}
				if c.refused != "" {
					var refused *guardstore.RefusedError
					require.ErrorAs(s, errs[1], &refused)
					require.ErrorContains(s, errs[1], c.refused)
					return
				}
				require.NoError(s, errs[1])
				require.Equal(s, c.want, claimed[1].Status)
				require.Equal(s, c.want == guardstore.ClaimBusy, claimed[1].Ticket > 0, "queued")
			})
		})
	}
}

func (s crowdedStore) comeAndGo(c guardstore.Claim, tombstone bool) {
	s.Helper()
	r := s.take(c)
	r.Tombstone = tombstone
	_, err := s.Release(s.Context(), r)
	require.NoError(s, err)
}

// Claims of one key differ by ttl or kind of lease. Only one is held, whether others of
// the bundle are free or not.
func TestBatch_ManyClaimsOfOneKey(t *testing.T) {
	t.Parallel()
	for _, others := range []string{"free", "held"} {
		t.Run(others, func(t *testing.T) {
			t.Parallel()
			onCrowdedStores(t, func(s crowdedStore) {
				if others == "held" {
					s.take(claimOf("other", "y-1"))
				}
				claims := []guardstore.Claim{claimOf("other", "o-1"), claimOf("k", "x-1"), claimOf("k", "x-2"), claimOf("k", "x-3")}
				claimed, _, errs := redisstore.Together(s.Context(), s.Store, claims, nil)
				held := 0
				for i := 1; i < len(claims); i++ {
					require.NoError(s, errs[i])
					if claimed[i].Status == guardstore.ClaimHeld {
						held++
					}
				}
				require.Equal(s, 1, held)
				require.Len(s, s.direct.HGetAll(s.Context(), testenv.LockOf("k")).Val(), 1, "one owner")
			})
		})
	}
}

// Claims of one key that go together queue one behind the other.
func TestBatch_ClaimsOfOneKeyHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onCrowdedStores(t, func(s crowdedStore) {
		s.take(claimOf("k", "h-1"))
		first, second := claimOf("k", "y-1"), claimOf("k", "x-1")
		first.Queue, second.Queue = true, true
		claimed, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{first, second}, nil)
		require.Equal(s, []error{nil, nil}, errs)
		assert.Less(s, claimed[0].Ticket, claimed[1].Ticket)
		assert.Equal(s, 1, claimed[1].Ahead)
	})
}

// Two copies of a release in one call end one hold: not that of the owner that the first one let in.
func TestBatch_ACopyOfAReleaseEndsNoOtherHold(t *testing.T) {
	t.Parallel()
	onCrowdedStores(t, func(s crowdedStore) {
		release := s.take(claimOf("k", "h-1"))
		next := claimOf("k", "x-1")
		next.Queue, next.Unsubscribed = true, true
		claimed, err := s.Acquire(s.Context(), next)
		require.NoError(s, err)
		require.Equal(s, guardstore.ClaimBusy, claimed.Status)
		_, _, errs := redisstore.Together(s.Context(), s.Store, nil, []guardstore.Release{release, release})
		require.Equal(s, []error{nil, nil}, errs)
		holders := s.direct.HKeys(s.Context(), testenv.LockOf("k")).Val()
		assert.Equal(s, []string{"x-1"}, holders)
	})
}

func TestBatch_OneOfManyReleases(t *testing.T) {
	t.Parallel()
	x := claimOf("k", "x-1")
	for name, c := range map[string]struct {
		prepare func(s crowdedStore) guardstore.Release
		want    guardstore.ReleaseStatus
		refused string
		next    string // the holder then
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
		}, want: guardstore.ReleaseLost},
		"wanted": {prepare: func(s crowdedStore) guardstore.Release {
			r := s.take(x)
			listen := s.direct.Subscribe(s.Context(), "redlatch:grant:y")
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

// A server whose clock was set back remembers the highest fence until the clock has caught up,
// whichever claims take and release the lock meanwhile.
func TestBatch_AFenceAheadOfTheClockIsRememberedUntilThen(t *testing.T) {
	t.Parallel()
	const ahead = time.Hour
	onCrowdedStores(t, func(s crowdedStore) {
		now, err := s.direct.Time(s.Context()).Result()
		require.NoError(s, err)
		highest := uint64(now.Add(ahead).UnixMicro())
		require.NoError(s, s.direct.Do(s.Context(), "zadd", endedKey, highest, "@fence").Err())
		lives := func() time.Duration { return s.direct.PTTL(s.Context(), endedKey).Val() }
		for n := range 3 {
			c := claimOf("k", "x-"+strconv.Itoa(n))
			c.TTL = 10 * time.Second
			claimed, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{c, claimOf("other", "o-1")}, nil)
			require.NoError(s, errs[0])
			require.Greater(s, claimed[0].Fence, highest)
			highest = claimed[0].Fence
			require.Greater(s, lives(), ahead-time.Minute, "taken")
			_, released, errs := redisstore.Together(s.Context(), s.Store, nil, []guardstore.Release{releaseOf(c, claimed[0]), {Key: "none", Owner: "n-1", TTL: time.Minute, Fence: 1}})
			require.NoError(s, errs[0])
			require.Equal(s, guardstore.ReleaseDone, released[0].Status)
			require.Greater(s, lives(), ahead-time.Minute, "released")
		}
	})
}

// A command that does not find a free or an own lock goes by itself; the others do not.
func TestBatch_OneOfManyIsWrong(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "redlatch")
	wrong := claimOf("wrong", "x-1")
	require.NoError(t, s.Admin.RPush(t.Context(), testenv.LockOf("wrong")+":ended", "not ours").Err())
	s.ResetCommands()
	claims := []guardstore.Claim{claimOf("a", "x-2"), wrong, claimOf("b", "x-3")}
	_, _, errs := redisstore.Together(t.Context(), store, claims, nil)
	require.ErrorContains(t, errs[1], "WRONGTYPE")
	assert.Equal(t, 2, s.Scripts())

	require.NoError(t, s.Admin.RPush(t.Context(), testenv.LockOf("wrong"), "not ours").Err())
	s.ResetCommands()
	_, _, errs = redisstore.Together(t.Context(), store, nil, []guardstore.Release{
		releaseOf(claims[0], guardstore.ClaimReply{}), releaseOf(wrong, guardstore.ClaimReply{}), releaseOf(claims[2], guardstore.ClaimReply{}),
	})
	require.NoError(t, errs[0])
	require.ErrorContains(t, errs[1], "WRONGTYPE")
	require.NoError(t, errs[2])
	assert.Equal(t, 2, s.Scripts())
}

// When memory is full nothing is taken, and everything can be released.
func TestBatch_ManyWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	s := crowdedStore{t, testenv.RedisStore(t, client, "redlatch"), client}
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
	require.Zero(t, client.Exists(t.Context(), testenv.LockOf("c"), testenv.LockOf("d"), testenv.LockOf("c")+":ended").Val())
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
	store := testenv.RedisStore(t, s.Admin, "redlatch")
	require.NoError(t, s.Admin.ScriptFlush(t.Context()).Err())
	s.ResetCommands()
	_, _, errs := redisstore.Together(t.Context(), store, []guardstore.Claim{claimOf("a", "x-1"), claimOf("b", "x-2"), claimOf("c", "x-3")}, nil)
	assert.Equal(t, []error{nil, nil, nil}, errs)
	calls := s.Commands()
	assert.Equal(t, 1, calls["evalsha"])
	assert.Equal(t, 1, calls["eval"])
}

// One address may lead to a cluster, which refuses keys of many slots in one
// command. Each goes by itself then, from the second time on at once.
func TestBatch_ManyOnAClusterBehindOneAddress(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	var keys []string
	node := c.Primary("redlatch:{k0}")
	for i := 0; len(keys) < 3; i++ {
		if key := "k" + strconv.Itoa(i); c.Primary("redlatch:{"+key+"}") == node {
			keys = append(keys, key)
		}
	}
	client := node.Client(t, func(o *redis.Options) { o.DB = 0 })
	store := testenv.RedisStore(t, client, "redlatch")
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

// calledByScripts counts the commands that scripts ran.
func calledByScripts(s *testenv.Redis) int {
	s.Helper()
	n := 0
	for name, calls := range s.Commands() {
		switch name {
		case "evalsha", "eval", "info", "config|resetstat", "hello", "client|setinfo", "client|maint_notifications", "ping":
		default:
			n += calls
		}
	}
	return n
}
