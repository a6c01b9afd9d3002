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

// outages break the network of an env until end is called.
var outages = map[string]func(r *testenv.Env, d *dialer) (end func()){
	"cut":    func(r *testenv.Env, _ *dialer) func() { r.Proxy.Cut(); return r.Proxy.Heal },
	"frozen": func(r *testenv.Env, _ *dialer) func() { r.Proxy.Freeze(); return r.Proxy.Thaw },
	"refused": func(r *testenv.Env, d *dialer) func() {
		d.refuse.Store(true)
		r.Proxy.Cut()
		return func() {
			r.Proxy.Heal()
			d.refuse.Store(false)
		}
	},
}

// dialer makes a client's connections. It can play a port without a listener.
type dialer struct {
	refuse atomic.Bool
	failed atomic.Int64                  // dials that were refused
	hole   atomic.Pointer[chan struct{}] // no dial gets anywhere until it is closed
	addr   atomic.Pointer[string]        // in place of the given address
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.refuse.Load() {
		d.failed.Add(1)
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
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, d := newEnvWithDialer(t, redistest.Shared(t))
			const ttl = 4 * time.Second
			defer keepWaiting(t, r, 10)() // callers that ask as often as they may
			err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
				r.Seen.More(t, guard.EventRenewal, 1)
				end := outage(r, d)
				time.Sleep(5 * ttl / 8)
				end()
				r.Seen.More(t, guard.EventRenewal, 1)
				return context.Cause(ctx)
			}, guard.TTL(ttl))
			require.NoError(t, err)
			failures, _ := r.Seen.Count(guard.EventStoreFailure)
			assert.Positive(t, failures, "the outage was none")
		})
	}
}

// The network fails for good: the work ends while Redis still keeps the lock, so that
// no other work can have begun.
func TestOutage_AnOutageLongerThanTheTTLEndsTheWorkBeforeTheKey(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"cut", "frozen"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, d := newEnvWithDialer(t, redistest.Shared(t))
			end := func() {}
			defer func() { end() }()
			err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
				r.Seen.More(t, guard.EventRenewal, 1)
				end = outages[name](r, d)
				l, _ := guard.FromContext(ctx)
				expires, deadline := expiry(t, r, t.Name()), l.Deadline()
				assert.True(t, deadline.Before(expires), "trusted for too long")
				late := testenv.Lateness()
				testenv.Await(t, ctx.Done())
				notifiedAt := time.Now()
				assert.False(t, notifiedAt.Before(deadline), "ended too early")
				if machine := late(); machine < hiccup {
					assert.True(t, notifiedAt.Before(expires), "ended too late")
				} else {
					t.Logf("timers are %v late here: nothing can be said of the end", machine)
				}

				var lost *guard.LostError
				require.ErrorAs(t, context.Cause(ctx), &lost)
				assert.Equal(t, t.Name(), lost.Key)
				assert.Same(t, lost, l.Err())
				_, held := guard.Held(ctx, guard.Key(t.Name()))
				assert.False(t, held)
				return nil
			}, guard.TTL(1500*time.Millisecond))
			require.ErrorIs(t, err, guard.ErrLost)
			require.NotErrorIs(t, err, guard.ErrStore)
			end()
			l, err := r.Acquire(t.Context(), guard.Key(t.Name())) // once the ttl has passed
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		})
	}
}

// An earlier outage had many calls repeated, each on a connection of its own. Now all
// connections that exist go silent for good; new ones are fine. A renewal has to find a
// fresh one in time, also while callers that wait for other locks do, too.
func TestOutage_ConnectionsThatWentSilentAreNoLoss(t *testing.T) {
	t.Parallel()
	for name, waiting := range map[string]bool{"nobody waits": false, "many wait": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, d := newEnvWithDialer(t, redistest.Shared(t), guard.StoreTimeout(400*time.Millisecond))
			leave := keepWaiting(t, r, 20)
			defer func() { leave() }()
			r.Proxy.Freeze()
			r.Seen.More(t, guard.EventStoreFailure, 20)
			r.Proxy.Thaw()
			if !waiting {
				leave()
			}
			work := func(ctx context.Context) error {
				r.Seen.More(t, guard.EventRenewal, 1)
				detour := redistest.NewProxy(t, r.Server.Addr()).Addr()
				d.addr.Store(&detour)
				r.Proxy.Freeze()
				defer r.Proxy.Thaw()
				r.Seen.More(t, guard.EventRenewal, 1)
				return context.Cause(ctx)
			}
			var err error
			testenv.Eventually(t, func() bool { // a busy machine takes a while to answer again
				ran := false
				err = r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error { ran = true; return work(ctx) },
					guard.TTL(1500*time.Millisecond))
				return ran
			}, "no call gets through")
			require.NoError(t, err)
		})
	}
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

// Connections break again and again, and Redis keeps its data: no lease is lost, and renewals do not come in a storm.
func TestOutage_BrokenConnectionsAreNoLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	r := testenv.NewOn(t, s, nil, s.Client(t), guard.TTL(30*time.Second))
	var leases []*guard.Lease
	for i := range 20 {
		l, err := r.Acquire(t.Context(), guard.Keyf("k%d", i))
		require.NoError(t, err)
		leases = append(leases, l)
	}
	renewed, _ := r.Seen.Count(guard.EventRenewal)
	for range 15 {
		require.NoError(t, r.Direct.ClientKillByFilter(t.Context(), "skipme", "yes").Err())
		time.Sleep(200 * time.Millisecond) // this is what is measured: three seconds of breaks
	}
	r.Seen.More(t, guard.EventRenewal, 1)
	after, _ := r.Seen.Count(guard.EventRenewal)
	assert.LessOrEqual(t, after-renewed, 20*6, "a bundle a second")
	for _, l := range leases {
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
	}
}

// expiry is when the key of a lock without renewals expires in Redis, or a little
// before that.
func expiry(t *testing.T, r *testenv.Env, key string) (at time.Time) {
	t.Helper()
	for range 10 {
		asked := time.Now()
		if estimate := asked.Add(r.Direct.PTTL(t.Context(), testenv.LockOf(key)).Val()); estimate.After(at) {
			at = estimate
		}
	}
	return at
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
