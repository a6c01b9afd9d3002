package quorum_test

import (
	"context"
	"strconv"
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

// quorumSite is three servers, each behind a proxy, a Guard on them, and its Observer.
type quorumSite struct {
	*guard.Guard
	direct  []*redis.Client
	proxies []*redistest.Proxy
	seen    *testenv.Watcher
}

func newQuorumSite(t *testing.T, opts ...guard.Option) *quorumSite {
	t.Helper()
	s := &quorumSite{seen: testenv.NewWatcher()}
	t.Cleanup(func() { s.seen.Report(t) })
	var clients []redis.UniversalClient
	for _, server := range redistest.StartN(t, 3) {
		proxy := redistest.NewProxy(t, server.Addr())
		s.direct, s.proxies = append(s.direct, server.Client(t)), append(s.proxies, proxy)
		clients = append(clients, proxy.Client(t))
	}
	s.Guard = testenv.GuardOnServers(t, clients, append(opts, guard.Observe(s.seen))...)
	return s
}

// holds says whether a server has the lock of k, for anybody.
func (s *quorumSite) holds(t *testing.T, server int) bool {
	t.Helper()
	n, err := s.direct[server].Exists(context.WithoutCancel(t.Context()), testenv.LockOf("k")).Result()
	require.NoError(t, err)
	return n == 1
}

// tombstone waits until a server knows that an owner of k is over.
func (s *quorumSite) tombstone(t *testing.T, server int) {
	t.Helper()
	testenv.Eventually(t, func() bool {
		return s.direct[server].ZCount(t.Context(), testenv.LockOf("k")+":queue", "-inf", "(0").Val() == 1
	}, "no tombstone")
}

// holdBack keeps an acquire from the first server until land has it arrive after all.
func (s *quorumSite) holdBack(t *testing.T) (held <-chan struct{}, land func()) {
	acquire := testenv.RunsScript(t, "acquire")
	held, release := s.proxies[0].HoldRequest(acquire)
	return held, func() {
		landed := s.proxies[0].SwallowReply(acquire, 1)
		release()
		testenv.Await(t, landed)
	}
}

// Two servers grant a lock, the third one has not heard of it when it is released. It hears
// of it later.
func TestQuorumLate_AnAcquireThatReachesAServerOfAQuorumAfterTheRelease(t *testing.T) {
	t.Parallel()
	s := newQuorumSite(t)
	held, land := s.holdBack(t)
	l, err := s.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	testenv.Await(t, held)
	require.NoError(t, l.Release(t.Context()))
	s.tombstone(t, 0)
	land()
	assert.False(t, s.holds(t, 0), "taken for nobody")
}

// A server lost its data, and was asked to hold the lock again when that was released. It
// hears of it later.
func TestQuorumLate_ARepairThatArrivesAfterTheRelease(t *testing.T) {
	t.Parallel()
	s := newQuorumSite(t, guard.TTL(3*time.Second))
	l, err := s.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	testenv.Eventually(t, func() bool { return s.holds(t, 0) }, "not held")
	require.NoError(t, s.direct[0].FlushAll(t.Context()).Err())
	held, land := s.holdBack(t)
	testenv.Await(t, held)
	require.NoError(t, l.Release(t.Context()))
	s.tombstone(t, 0)
	land()
	assert.False(t, s.holds(t, 0), "taken for nobody")
}

// A hold's fence is far ahead of the clock of a server that lost its data. Whoever gets the
// lock there next, with the help of another one, must get a larger one: the server grants the
// hold that it takes again one above it.
func TestQuorumLate_ARepairedServerGrantsFencesAboveTheHolds(t *testing.T) {
	t.Parallel()
	s := newQuorumSite(t, guard.TTL(3*time.Second))
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	for _, server := range []int{1, 2} {
		require.NoError(t, s.direct[server].Set(t.Context(), testenv.LockOf("k")+":last", ahead+" ", time.Hour).Err())
	}
	l, err := s.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	require.NoError(t, s.direct[0].FlushAll(t.Context()).Err())
	testenv.Eventually(t, func() bool { return s.holds(t, 0) }, "not held again")
	held := s.direct[0].HVals(t.Context(), testenv.LockOf("k")).Val()
	require.Len(t, held, 1)
	fence, err := strconv.ParseUint(strings.Fields(held[0])[1], 10, 64)
	require.NoError(t, err)
	assert.Greater(t, fence, l.Fence())
	require.NoError(t, l.Release(t.Context()))
}

// One server refuses, and two do not answer: they may grant the lock yet.
func TestQuorumLate_ARefusalOfOneServerIsNotThatOfAQuorum(t *testing.T) {
	t.Parallel()
	s := newQuorumSite(t, guard.StoreTimeout(2*testenv.Patience))
	require.NoError(t, s.direct[0].Set(t.Context(), testenv.LockOf("k"), "a string", 0).Err())
	s.proxies[1].Freeze()
	s.proxies[2].Freeze()
	acquired := testenv.InBackground(func() error { return s.WithLock(t.Context(), guard.Key("k"), testenv.Nothing) })
	s.seen.More(t, guard.StoreFailure, 1)
	s.proxies[1].Thaw()
	s.proxies[2].Thaw()
	require.NoError(t, acquired(t))
}

// A call enters a hold that one server does not have any more, while another one does not
// answer: the hold may still be that of a majority.
func TestQuorumLate_AnEnterThatOneServerKnowsNothingOf(t *testing.T) {
	t.Parallel()
	s := newQuorumSite(t, guard.StoreTimeout(2*testenv.Patience), guard.TTL(10*testenv.Patience))
	require.NoError(t, s.WithLock(t.Context(), guard.Key("k"), func(ctx context.Context) error {
		for server := range s.direct {
			testenv.Eventually(t, func() bool { return s.holds(t, server) }, "not held")
		}
		require.NoError(t, s.direct[0].FlushAll(t.Context()).Err())
		s.proxies[1].Freeze()
		entered := testenv.InBackground(func() error { return s.WithLock(ctx, guard.Key("k"), testenv.Nothing) })
		s.seen.More(t, guard.StoreFailure, 1)
		s.proxies[1].Thaw()
		require.NoError(t, entered(t))
		return ctx.Err()
	}))
}

// A server refuses to release a lock, as its key is of another type by now. It is not asked
// again for that.
func TestQuorumLate_AServerOfAQuorumThatRefusesIsAskedOnce(t *testing.T) {
	t.Parallel()
	s := newQuorumSite(t)
	l, err := s.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	testenv.Eventually(t, func() bool { return s.holds(t, 0) }, "not held")
	require.NoError(t, s.direct[0].Set(t.Context(), testenv.LockOf("k"), "a string", 0).Err())
	require.NoError(t, s.direct[0].ConfigResetStat(t.Context()).Err())
	refused := func() int {
		stats, err := s.direct[0].InfoMap(t.Context(), "errorstats").Result()
		require.NoError(t, err)
		n, _ := strconv.Atoi(strings.TrimPrefix(stats["Errorstats"]["errorstat_WRONGTYPE"], "count="))
		return n
	}
	require.NoError(t, l.Release(t.Context()))
	testenv.Eventually(t, func() bool { return refused() > 0 }, "not refused")
	once := refused()
	short, err := s.Acquire(t.Context(), guard.Key("other"), guard.TTL(500*time.Millisecond), guard.FixedLease())
	require.NoError(t, err)
	testenv.Await(t, short.Context().Done()) // long enough for some tries
	assert.Equal(t, once, refused())
	_ = short.Release(t.Context())
}
