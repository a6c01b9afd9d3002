package redisstore_test

import (
	"context"
	"errors"
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

	s.ResetCommands()
	alone, refused := store.Acquire(t.Context(), claims[0])
	_, err := store.Release(t.Context(), releaseOf(claims[0], alone))
	require.NoError(t, errors.Join(refused, err))
	assert.Equal(t, 4+2, calledByScripts(s), "by itself, it does no more")
}

func TestBatch_AClaimWithARecordGoesByItself(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "redlatch")
	once := claimOf("once", "x-1")
	once.Once = &guardstore.Once{Keep: time.Hour}
	s.ResetCommands()
	claimed, _, errs := redisstore.Together(t.Context(), store, []guardstore.Claim{claimOf("a", "x-2"), once, claimOf("b", "x-3")}, nil)
	require.NoError(t, errors.Join(errs...))
	for _, r := range claimed {
		assert.Equal(t, guardstore.ClaimHeld, r.Status)
	}
	assert.Equal(t, 2, s.Scripts())
}

// A claim that is busy, or a release that a claim waits for, is sent once more, by itself. The command beside it is not.
func TestBatch_TwoOfWhichOneIsBusy(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	store := testenv.RedisStore(t, s.Admin, "redlatch")
	holder, err := store.Acquire(t.Context(), claimOf("taken", "a-1"))
	require.NoError(t, err)
	require.Equal(t, guardstore.ClaimHeld, holder.Status)
	s.ResetCommands()
	claimed, _, errs := redisstore.Together(t.Context(), store, []guardstore.Claim{claimOf("taken", "b-1"), claimOf("free", "b-2")}, nil)
	require.NoError(t, errors.Join(errs...))
	assert.Equal(t, guardstore.ClaimBusy, claimed[0].Status)
	assert.Equal(t, guardstore.ClaimHeld, claimed[1].Status)
	assert.Equal(t, 2, s.Scripts())

	waiting := claimOf("taken", "b-3")
	waiting.Queue = true
	_, err = store.Acquire(t.Context(), waiting)
	require.NoError(t, err)
	s.ResetCommands()
	_, released, errs := redisstore.Together(t.Context(), store, nil, []guardstore.Release{
		releaseOf(claimOf("taken", "a-1"), holder), releaseOf(claimOf("free", "b-2"), claimed[1]),
	})
	require.NoError(t, errors.Join(errs...))
	assert.Equal(t, []guardstore.ReleaseReply{{Status: guardstore.ReleaseDone}, {Status: guardstore.ReleaseDone}}, released)
	assert.Equal(t, 2, s.Scripts())
}

// Of claims of one key that go together, one is held. Those that wait queue one behind the other.
func TestBatch_ClaimsOfOneKeyHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onCrowdedStores(t, func(s crowdedStore) {
		first, second, third := claimOf("k", "h-1"), claimOf("k", "y-1"), claimOf("k", "x-1")
		second.Queue, third.Queue = true, true
		claimed, _, errs := redisstore.Together(s.Context(), s.Store, []guardstore.Claim{first, second, third}, nil)
		require.Equal(s, []error{nil, nil, nil}, errs)
		assert.Equal(s, guardstore.ClaimHeld, claimed[0].Status)
		assert.Equal(s, []string{"h-1"}, s.direct.HKeys(s.Context(), testenv.LockOf("k")).Val())
		assert.Less(s, claimed[1].Ticket, claimed[2].Ticket)
		assert.Equal(s, 1, claimed[2].Ahead)
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
