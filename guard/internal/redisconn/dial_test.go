package redisconn_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
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

// In the tests of this file a new connection takes for ever: TLS shakes no hands, as go-redis's own dialer knows no
// context there, or the user's own code, which does not heed its context, does not return.

// forEver is how long a client dials unless something ends that: longer than a test
// waits for a call.
const forEver = 4 * testenv.Patience

// connect has a Guard make its connections. On a busy machine the first call may take longer than a StoreTimeout.
func connect(t *testing.T, g *guard.Guard) {
	t.Helper()
	testenv.Eventually(t, func() bool { return g.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing) == nil }, "no connection")
}

// inTime has a Guard try to acquire a lock, and close, while nothing comes of a new
// connection, and gives what the caller got.
func inTime(t *testing.T, g *guard.Guard) error {
	t.Helper()
	acquired := testenv.InBackground(func() error {
		_, err := g.Acquire(t.Context(), guard.Key(t.Name()), guard.NoWait())
		return err
	})
	err := acquired(t)
	require.ErrorIs(t, err, guard.ErrStore)
	closed := testenv.InBackground(g.Close)
	require.NoError(t, closed(t))
	return err
}

// The user's Dialer hangs, whatever its context says. No call and no Close waits for it, and connections that come of it in
// the end are closed.
func TestDial_ADialerThatHangsHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	s := newStuck(t)
	defer s.letGo()
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr())
	client := proxy.Client(t, func(o *redis.Options) { o.Dialer = s.dial })
	g := testenv.GuardOn(t, client, guard.StoreTimeout(time.Second))
	connect(t, g)
	s.is.Store(true)
	proxy.Cut()
	proxy.Heal()
	saysWhy(t, g, client, proxy.Addr())
}

// saysWhy has Guards try, one after another, until a caller learns why. The last attempt of one may
// have no time left for a dial, or a busy machine none to hand on what the dial said.
func saysWhy(t *testing.T, g *guard.Guard, client *redis.Client, why string) {
	t.Helper()
	testenv.Eventually(t, func() bool {
		err := inTime(t, g)
		g = testenv.GuardOn(t, client, guard.StoreTimeout(time.Second))
		return strings.Contains(err.Error(), why)
	}, "the error does not say: "+why)
}

// A client of a cluster dials the nodes.
func TestDial_ADialerOfAClusterThatHangsHoldsUpNoCall(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, "--cluster-enabled", "yes")
	admin := node.Client(t)
	require.NoError(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testenv.Eventually(t, func() bool {
		return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, "no cluster")
	s := newStuck(t)
	defer s.letGo()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Addr()}, Dialer: s.dial})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	g := testenv.GuardOn(t, client, guard.StoreTimeout(time.Second))
	connect(t, g)
	s.is.Store(true)
	require.NoError(t, admin.ClientKillByFilter(t.Context(), "type", "normal").Err())
	_ = inTime(t, g)
}

// stuck is user code that does not return until it is let go, whatever its context says.
type stuck struct {
	is    atomic.Bool
	goOn  chan struct{}
	conns atomic.Int64 // that are open
}

func newStuck(t *testing.T) *stuck {
	s := &stuck{goOn: make(chan struct{})}
	t.Cleanup(func() { testenv.Eventually(t, func() bool { return s.conns.Load() == 0 }, "connections are left open") })
	return s
}

func (s *stuck) here() {
	if s.is.Load() {
		<-s.goOn
	}
}

func (s *stuck) letGo() {
	if s.is.CompareAndSwap(true, false) {
		close(s.goOn)
	}
}

// counted is a connection that is waited for.
type counted struct {
	net.Conn
	closed func()
}

func (c counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (s *stuck) dial(_ context.Context, network, addr string) (net.Conn, error) {
	s.here()
	conn, err := net.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	s.conns.Add(1)
	return counted{conn, sync.OnceFunc(func() { s.conns.Add(-1) })}, nil
}

// failures are those of the tries of a call, all of which fail.
func failures(t *testing.T, client *redis.Client) error {
	t.Helper()
	seen := &guardtest.Recorder{}
	g := testenv.GuardOn(t, client, guard.StoreTimeout(2*time.Second), guard.Observe(seen))
	require.ErrorIs(t, g.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing, guard.NoWait()), guard.ErrStore)
	var errs []error
	for _, e := range seen.Events(guard.EventStoreFailure) {
		errs = append(errs, e.Err)
	}
	return errors.Join(errs...)
}

// A connection takes longer to come about than a call waits for it. It is of use to a later call:
// else there would never be one.
func TestDial_ConnectionsThatTakeLongerThanACall(t *testing.T) {
	t.Parallel()
	const storeTimeout = 300 * time.Millisecond
	client := redistest.Shared(t).Client(t, func(o *redis.Options) {
		o.Dialer = func(_ context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(2 * storeTimeout)
			return net.Dial(network, addr)
		}
	})
	g := testenv.GuardOn(t, client, guard.StoreTimeout(storeTimeout))
	require.ErrorIs(t, g.Ping(t.Context()), guard.ErrStore)
	testenv.Eventually(t, func() bool {
		return g.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing) == nil
	}, "never connected")
}

// A wrong word of the user's own code reaches the caller as it is.
func TestDial_UsersCodeThatRefusesToConnect(t *testing.T) {
	t.Parallel()
	wrong := errors.New("no ticket")
	for name, use := range map[string]func(o *redis.Options){
		"Dialer": func(o *redis.Options) {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, wrong }
		},
		"OnConnect": func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error { return wrong }
		},
		"CredentialsProviderContext": func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", wrong }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.ErrorIs(t, failures(t, redistest.Shared(t).Client(t, use)), wrong)
		})
	}
}

// Five dials of renewals hang for good, as many as there are connections for renewals.
// Later dials succeed: the holds go on.
func TestDial_DialsThatHangAreNoLoss(t *testing.T) {
	t.Parallel()
	const ttl, dials = 9 * time.Second, 5
	s := redistest.Shared(t)
	proxy, config := redistest.NewTLSProxy(t, s.Addr())
	var hung atomic.Int64
	config.ServerName = "127.0.0.1"
	client := proxy.Client(t, func(o *redis.Options) {
		o.Dialer = func(_ context.Context, network, addr string) (net.Conn, error) {
			hung.Add(1)
			defer hung.Add(-1)
			return tls.DialWithDialer(&net.Dialer{Timeout: forEver}, network, addr, config)
		}
	})
	r := testenv.NewOn(t, s, proxy, client)
	leases := make([]*guard.Lease, dials)
	for i := range leases { // they do not come due together
		var err error
		leases[i], err = r.Acquire(t.Context(), guard.Keyf("%s:%d", t.Name(), i), guard.TTL(ttl+time.Duration(i)*ttl/20))
		require.NoError(t, err)
	}
	proxy.Freeze()
	begun := make([]time.Time, dials)
	for i, l := range leases {
		begun[i] = l.Deadline()
	}
	testenv.Eventually(t, func() bool { return hung.Load() >= dials }, "renewals do not dial")
	proxy.HalfOpen() // these dials will hang, others not
	proxy.Thaw()
	for i, l := range leases {
		testenv.Eventually(t, func() bool { return l.Err() != nil || l.Deadline().After(begun[i]) }, "not renewed")
		require.NoError(t, l.Err())
		_ = l.Release(t.Context()) // over a connection that may hang
	}
	proxy.Cut()
}
