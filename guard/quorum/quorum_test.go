package quorum_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) {
	os.Exit(redistest.Run(m))
}

const order = "order:42" // the key of testenv.Order

func TestQuorum_StoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	storetest.TestStore(t, func(tb testing.TB) guardstore.Store {
		return q.Store(tb, quorum.Prefix("contract-"+tb.Name()))
	})
	require.NotEmpty(t, q.Servers[0].Client(t).Keys(t.Context(), "contract-*").Val(), "keys have the prefix")
}

func TestQuorum_NewRefusesWhatIsNoQuorum(t *testing.T) {
	q := testenv.NewQuorumEnv(t, 3)
	one := q.Clients(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	type wrapper struct{ redis.UniversalClient }
	for name, c := range map[string]struct {
		clients []redis.UniversalClient
		want    string
	}{
		"two":          {one[:2], "has 2 servers, a quorum needs 3 at least"},
		"even":         {append(q.Clients(t), one[0]), "has 4 servers: an even number survives no more failures than 3 do"},
		"nil":          {[]redis.UniversalClient{one[0], nil, one[1]}, "has no client at index 1"},
		"a twin":       {[]redis.UniversalClient{one[0], one[1], q.Clients(t)[0]}, "leads to the same server at index 0 and 2"},
		"a cluster":    {[]redis.UniversalClient{one[0], one[1], cluster}, "has a *redis.ClusterClient at index 2: a server of a quorum is standalone"},
		"a nil client": {[]redis.UniversalClient{one[0], one[1], (*redis.Client)(nil)}, "has no client at index 2"},
		"a wrapper":    {[]redis.UniversalClient{one[0], one[1], wrapper{one[2]}}, "index 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := quorum.New(c.clients)
			require.ErrorIs(t, err, guard.ErrOption)
			assert.ErrorContains(t, err, c.want)
		})
	}
	for _, prefix := range []string{"", "a{b", "a}b", "\xff"} {
		_, err := quorum.New(one, quorum.Prefix(prefix))
		require.ErrorIs(t, err, guard.ErrOption)
		require.Regexp(t, "^guard: Prefix [^ ]+", err)
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := quorum.New(one)
		require.ErrorContains(t, err, "inside of a testing/synctest bubble")
	})
	s, err := quorum.New(one, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "once more")
}

func TestQuorum_HasNoLimits(t *testing.T) {
	var s *quorum.Store
	require.ErrorContains(t, s.CheckLimit(guardstore.Unlimited), "does not go with a quorum")
	require.ErrorContains(t, s.CheckLimit(3), "3 does not go with a quorum")
	require.NoError(t, s.CheckLimit(guardstore.Exclusive))
}

// Two of five servers may fail: one is read-only, one has a key of another type. Chaos has the other ways.
func TestQuorum_SurvivesAMinority(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 5)
	g, other := q.Guard(t), q.Guard(t)
	require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing))
	require.NoError(t, q.Servers[0].Client(t).ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	require.NoError(t, q.Servers[3].Client(t).Set(t.Context(), testenv.LockOf(order), "x", 0).Err())
	testenv.Contend(t, order, 10, g, other)
}

// With All, one server that is down is too many. The servers that are left say that the lock is held.
func TestQuorum_WithoutEnoughServersIsAStoreErrorAndNeverBusy(t *testing.T) {
	t.Parallel()
	q := testenv.NewQuorumEnv(t, 3)
	_, err := q.Guard(t).Acquire(t.Context(), testenv.Order)
	require.NoError(t, err)
	q.Servers[2].Kill()
	all := testenv.GuardOnStore(t, q.Store(t, quorum.All()), guard.StoreTimeout(2*time.Second))
	err = all.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait())
	require.ErrorIs(t, err, guard.ErrStore)
	require.NotErrorIs(t, err, guard.ErrBusy)
	require.ErrorContains(t, err, "1 of 3 servers failed")
	require.ErrorContains(t, err, "connection refused")
	require.NoError(t, all.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait(), guard.FailOpen()))
}
