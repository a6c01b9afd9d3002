package redisconn_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	sentinelTTL = 5 * time.Second
	// sentinelPatience is the longest wait through a failover: until the
	// primary counts as down, another is elected, what it does not know has lapsed, and some.
	sentinelPatience = time.Second + 5*time.Second + sentinelTTL + 5*time.Second
)

// The former primary works on, and believes for some seconds that it still is the primary: it hung, or it was told that
// another is. An idle Guard has a connection to it.
func TestSentinelFailover_NoGuardStaysOnTheFormerPrimary(t *testing.T) {
	t.Parallel()
	type server = redistest.Server
	for name, fault := range map[string]struct {
		begin func(*testing.T, *redistest.Sentinel, *server)
		end   func(*testing.T, *server)
	}{
		"hangs": {
			func(t *testing.T, _ *redistest.Sentinel, primary *server) { require.NoError(t, primary.Pause()) },
			func(t *testing.T, primary *server) { require.NoError(t, primary.Resume()) },
		},
		"told": {
			func(t *testing.T, s *redistest.Sentinel, _ *server) { s.Failover(t) },
			func(*testing.T, *server) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinel(t)
			s.DownAfter(t, time.Hour) // there is one failover, and that is the test's
			g, idle := testenv.GuardOn(t, s.Client(t), guard.StoreTimeout(sentinelPatience)), testenv.GuardOn(t, s.Client(t))
			for _, g := range []*guard.Guard{g, idle} {
				require.NoError(t, g.WithLock(t.Context(), guard.Key("idle"), testenv.Nothing))
			}
			primary := s.Primary()
			fault.begin(t, s, primary)
			s.DownAfter(t, time.Second)
			s.AwaitPrimary(t, primary)
			s.DownAfter(t, time.Hour)
			s.AwaitAgreement(t)
			time.Sleep(1500 * time.Millisecond) // a Guard that works asks Sentinel every second
			since, err := g.Acquire(t.Context(), guard.Key("since"))
			require.NoError(t, err)
			fault.end(t, primary)
			assert.Eventually(t, func() bool {
				err := idle.WithLock(t.Context(), guard.Key("since"), testenv.Nothing, guard.NoWait())
				return errors.Is(err, guard.ErrBusy)
			}, 3*time.Second, 10*time.Millisecond)
			require.NoError(t, since.Release(t.Context()))
		})
	}
}

// The primary dies with locks that no replica knows of. Their holders notice, and callers
// that wait get them from the new primary; holders and waiters of other locks go on.
func TestSentinelFailover_ForgetsWhatWasNotReplicated(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	s.DownAfter(t, time.Hour) // there is one failover, and that is the test's
	options := []guard.Option{guard.StoreTimeout(10 * time.Second), guard.TTL(2 * sentinelTTL)}
	r := &guardtest.Recorder{}
	holder := testenv.GuardOn(t, s.Client(t), append(options, guard.Observe(r))...)
	waiter := testenv.GuardOn(t, s.Client(t), options...)
	acquire := func(names []string) []*guard.Lease {
		leases := make([]*guard.Lease, len(names))
		for i, name := range names {
			l, err := holder.Acquire(t.Context(), guard.Key(name))
			require.NoError(t, err)
			leases[i] = l
		}
		return leases
	}
	rdb := s.Client(t)
	wait := func(name string) <-chan *guard.Lease {
		got := make(chan *guard.Lease, 1)
		go func() {
			l, err := waiter.Acquire(t.Context(), guard.Key(name))
			assert.NoError(t, err)
			got <- l
		}()
		awaitQueue(t, rdb, name, 1)
		return got
	}

	kept := acquire(keysOf("kept", 10))
	next := wait("kept:0")
	primary := s.Primary()
	pipe := primary.Client(t).Pipeline()
	pipe.Set(t.Context(), "written", "", time.Minute) // WAIT is for what its connection wrote
	known := pipe.Do(t.Context(), "wait", 2, 5000)
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, known.Val())
	rejoin := s.Isolate(t)
	lost := acquire(keysOf("lost", 10))
	nextOfLost := wait("lost:0")
	primary.Kill()
	killed := time.Now()
	rejoin()
	s.DownAfter(t, time.Second)
	successor := s.AwaitPrimary(t, primary)
	s.DownAfter(t, time.Hour)

	fresh, err := waiter.Acquire(t.Context(), guard.Key("fresh"))
	require.NoError(t, err)
	require.NoError(t, fresh.Release(t.Context()))

	l := <-nextOfLost
	assert.Less(t, time.Since(killed), sentinelPatience)
	assert.Greater(t, l.Fence(), lost[0].Fence())
	require.NoError(t, l.Release(t.Context()))
	for _, l := range lost {
		<-l.Context().Done()
		assert.ErrorIs(t, l.Err(), guard.ErrLost)
	}
	assert.Less(t, time.Since(killed), sentinelPatience)

	renewals := len(r.Events(guard.EventRenewal))
	require.Eventually(t, func() bool { return len(r.Events(guard.EventRenewal)) >= renewals+len(kept) },
		sentinelPatience, 10*time.Millisecond, "on the new primary")
	for _, l := range kept {
		require.NoError(t, l.Err())
	}
	if s.Primary() == successor { // else a busy machine had Sentinel replace it, which lives: two took locks
		require.Empty(t, next)
	}
	for _, l := range kept {
		require.NoError(t, l.Release(t.Context()))
	}
	l = <-next
	assert.Greater(t, l.Fence(), kept[0].Fence())
	require.NoError(t, l.Release(t.Context()))
}

// The sentinel that a client asks hangs, and does not hear of a failover. The Guard asks
// another one.
func TestSentinelHung_SentinelHangs(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	old, watchers := s.Primary(), s.Sentinels()
	var others atomic.Bool
	g := testenv.GuardOn(t, s.Client(t, func(o *redis.FailoverOptions) {
		o.ReadTimeout = 2500 * time.Millisecond
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !others.Load() && (addr == watchers[1].Addr() || addr == watchers[2].Addr()) {
				return nil, errors.New("not yet")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}))
	grant := func() error {
		return g.WithLock(t.Context(), guard.Key("hung"), testenv.Nothing)
	}
	require.NoError(t, grant())

	others.Store(true)
	require.NoError(t, watchers[0].Pause())
	teller := watchers[1].Client(t)
	require.NoError(t, teller.Do(t.Context(), "sentinel", "failover", redistest.MasterName).Err())
	next := s.AwaitPrimary(t, old)
	rdb := next.Client(t)
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	require.Eventually(t, func() bool {
		_ = grant() // by the old one, which works, or not
		return strings.Contains(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_evalsha:")
	}, sentinelPatience, 10*time.Millisecond)
}

// Sentinels hang: go-redis waits for each as long as the user's client does, and is on its
// way there when it dials, as it is when it only asks for the primary.
func TestSentinelHung_SentinelsThatHangHoldUpNoCall(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	slow := func(o *redis.FailoverOptions) { o.ReadTimeout = forEver }
	impatient := guard.StoreTimeout(time.Second)
	dialing, asking := testenv.GuardOn(t, s.Client(t, slow), impatient), testenv.GuardOn(t, s.Client(t, slow), impatient)
	connect(t, dialing)
	connect(t, asking)
	primary := s.Primary().Client(t)
	for _, w := range s.Sentinels() {
		require.NoError(t, w.Pause())
		defer func() { assert.NoError(t, w.Resume()) }()
	}
	for begun := time.Now(); time.Since(begun) < 1500*time.Millisecond; { // it asks after a second
		require.NoError(t, asking.WithLock(t.Context(), guard.Key("k"), testenv.Nothing))
	}
	closed := testenv.InBackground(asking.Close)
	require.NoError(t, closed(t))
	require.NoError(t, primary.ClientKillByFilter(t.Context(), "type", "normal").Err())
	_ = inTime(t, dialing)
}
