package redisconn_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The tests in this file break the network between a holder and Redis for a while.

// dialer makes a client's connections. It can play a port without a listener.
type dialer struct {
	refuse atomic.Bool
	hole   atomic.Pointer[chan struct{}] // no dial gets anywhere until it is closed
	addr   atomic.Pointer[string]        // in place of the given address
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.refuse.Load() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	if hole := d.hole.Load(); hole != nil {
		<-*hole
	}
	if other := d.addr.Load(); other != nil {
		addr = *other
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func newEnvWithDialer(t *testing.T, s *redistest.Server, opts ...guard.Option) (*testenv.Env, *dialer) {
	t.Helper()
	d := &dialer{}
	proxy := redistest.NewProxy(t, s.Addr())
	client := proxy.Client(t, func(o *redis.Options) { o.Dialer = d.dial })
	return testenv.NewOn(t, s, proxy, client, opts...), d
}

// The network fails right after a renewal, for longer than half of the ttl: the next
// renewal fails, and maybe some tries after it, and then there is time for more.
func TestOutage_AnOutageShorterThanTheRestOfTheTTLIsNoLoss(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		begin, end func(r *testenv.Env, d *dialer)
	}{
		"frozen": {
			func(r *testenv.Env, _ *dialer) { r.Proxy.Freeze() },
			func(r *testenv.Env, _ *dialer) { r.Proxy.Thaw() },
		},
		"refused": {
			func(r *testenv.Env, d *dialer) { d.refuse.Store(true); r.Proxy.Cut() },
			func(r *testenv.Env, d *dialer) { r.Proxy.Heal(); d.refuse.Store(false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, d := newEnvWithDialer(t, redistest.Shared(t))
			const ttl = 4 * time.Second
			defer keepWaiting(t, r, 10)() // callers that ask as often as they may
			err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
				r.Seen.More(t, guard.EventRenewal, 1)
				outage.begin(r, d)
				time.Sleep(5 * ttl / 8)
				outage.end(r, d)
				r.Seen.More(t, guard.EventRenewal, 1)
				return context.Cause(ctx)
			}, guard.TTL(ttl))
			require.NoError(t, err)
			failures, _ := r.Seen.Count(guard.EventStoreFailure)
			assert.Positive(t, failures, "the outage was none")
		})
	}
}

// An earlier outage had many calls repeated, each on a connection of its own. Now all
// connections that exist go silent for good; new ones are fine. A renewal has to find a
// fresh one in time, also while callers that wait for other locks do, too.
func TestOutage_ConnectionsThatWentSilentAreNoLoss(t *testing.T) {
	t.Parallel()
	r, d := newEnvWithDialer(t, redistest.Shared(t), guard.StoreTimeout(400*time.Millisecond))
	defer keepWaiting(t, r, 20)()
	r.Proxy.Freeze()
	r.Seen.More(t, guard.EventStoreFailure, 20)
	r.Proxy.Thaw()
	testenv.Eventually(t, func() bool { // a busy machine takes a while to answer again
		ran := false
		err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
			ran = true
			r.Seen.More(t, guard.EventRenewal, 1)
			detour := redistest.NewProxy(t, r.Server.Addr()).Addr()
			d.addr.Store(&detour)
			r.Proxy.Freeze()
			defer r.Proxy.Thaw()
			r.Seen.More(t, guard.EventRenewal, 1)
			return context.Cause(ctx)
		}, guard.TTL(1500*time.Millisecond))
		require.True(t, !ran || err == nil, "%v", err)
		return ran
	}, "no call gets through")
}

// Redis restarts without its data: work whose lock is gone ends within a second
// of Redis being back, and not at the next third of its ttl. No caller has called Redis meanwhile.
func TestOutage_WorkLearnsOfAnEmptyRestartAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.TTL(30*time.Second))
	l, err := r.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	testenv.Eventually(t, func() bool { return len(r.Direct.PubSubChannels(t.Context(), "*").Val()) == 1 }, "no subscription")
	s.Restart(t)
	back := time.Now()
	testenv.Await(t, l.Context().Done())
	assert.Less(t, time.Since(back), 2*time.Second, "one, and another for a busy machine")
	require.ErrorIs(t, l.Err(), guard.ErrLost)
	require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
}

// keepWaiting has n callers wait, each for a lock of its own that another Guard holds,
// and ask again whenever Redis does not answer, until leave is called.
func keepWaiting(t *testing.T, r *testenv.Env, n int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	other := testenv.GuardOn(t, r.Direct)
	var waiters sync.WaitGroup
	leases := make([]*guard.Lease, n)
	for i := range n {
		var err error
		leases[i], err = other.Acquire(t.Context(), guard.Keyf("%s busy %d", t.Name(), i))
		require.NoError(t, err)
		waiters.Go(func() {
			for ctx.Err() == nil {
				_, err := r.Acquire(ctx, guard.Key(leases[i].Key()))
				assert.Error(t, err)
			}
		})
	}
	return sync.OnceFunc(func() {
		cancel()
		waiters.Wait()
		for _, l := range leases {
			assert.NoError(t, l.Release(context.WithoutCancel(t.Context())))
		}
	})
}
