package guard_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/redistest"
)

// wrapped is how instrumented clients are often made: it has all methods, and New cannot
// tell what it is.
type wrapped struct{ redis.UniversalClient }

// A Guard has to know what its client does when a server hangs. Two kinds are known.
func TestClients_OnlyKnownClientsAreTaken(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	single := redis.NewClient(&redis.Options{Addr: nowhere})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}})
	failover := redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{nowhere}})
	failoverCluster := redis.NewFailoverClusterClient(&redis.FailoverOptions{SentinelAddrs: []string{nowhere}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": nowhere, "b": "127.0.0.1:2"}})
	for _, c := range []redis.UniversalClient{single, cluster, failover, failoverCluster, ring} {
		t.Cleanup(func() { _ = c.Close() })
	}
	for name, test := range map[string]struct {
		client      redis.UniversalClient
		one, quorum string // what New and quorum.New say
	}{
		"standalone": {single, "", ""},
		"timeout":    {single.WithTimeout(time.Second), "", ""},
		"sentinel":   {failover, "", ""},
		"cluster":    {cluster, "", "clients has a *redis.ClusterClient at index 1: "},
		"sentinel, as a cluster": {
			failoverCluster, "", "clients has a *redis.ClusterClient at index 1: ",
		},
		"ring": {
			ring, "client is a *redis.Ring: it takes a shard that hangs out of use, and its locks would have two holders",
			"clients has a *redis.Ring at index 1: ",
		},
		"wrapped": {
			wrapped{single},
			"client is a guard_test.wrapped; give New the *redis.Client or *redis.ClusterClient itself: a wrapper hides what New has to know, and its timeouts cannot be bound",
			"clients has a guard_test.wrapped at index 1; give quorum.New the *redis.Client itself: a wrapper hides ",
		},
		"wrapped, no name": {
			struct{ redis.UniversalClient }{single},
			"client is a struct { redis.UniversalClient }; give New ",
			"clients has a struct { redis.UniversalClient } at index 1; give quorum.New ",
		},
		"pointer to wrapped": {&wrapped{single}, "client is a *guard_test.wrapped; ", "clients has a *guard_test.wrapped at index 1; "},
		"nil ring":           {(*redis.Ring)(nil), "client is nil", "clients has a *redis.Ring at index 1: "},
		"nil cluster":        {(*redis.ClusterClient)(nil), "client is nil", "clients has a *redis.ClusterClient at index 1: "},
		"nil wrapper":        {(*wrapped)(nil), "client is nil", "clients has a *guard_test.wrapped at index 1; "},
		"nil client":         {(*redis.Client)(nil), "client is nil", "clients has no client at index 1"},
		"zero": {
			&redis.Client{}, "client is a *redis.Client that go-redis did not make",
			"clients has a *redis.Client at index 1 that go-redis did not make",
		},
		"zero cluster": {
			&redis.ClusterClient{}, "client is a *redis.ClusterClient that go-redis did not make",
			"clients has a *redis.ClusterClient at index 1: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			takenUnless(t, test.one, func() (*guard.Guard, error) { return guard.New(test.client) })
			takenUnless(t, test.quorum, func() (*quorum.Store, error) {
				return quorum.New([]redis.UniversalClient{single, test.client, single})
			})
		})
	}
}

// takenUnless makes something that is to be refused with an OptionError; "" is not.
func takenUnless[T interface{ Close() error }](t *testing.T, refusal string, made func() (T, error)) {
	t.Helper()
	got, err := made()
	if refusal == "" {
		require.NoError(t, err)
		require.NoError(t, got.Close())
		return
	}
	var option *guard.OptionError
	require.ErrorAs(t, err, &option)
	assert.Contains(t, err.Error(), "guard: "+refusal)
	assert.Zero(t, got)
}

// refusing is a Limiter, and a Hook, that lets nothing pass.
type refusing struct{}

var errRefusing = errors.New("refused by the user's own code")

func (refusing) Allow() error       { return errRefusing }
func (refusing) ReportResult(error) {}

func (refusing) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errRefusing }
}

func (refusing) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return errRefusing }
}

func (refusing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errRefusing }
}

// endless has a client wait for ever for whatever it is told, and repeat it.
func endless(o *redis.Options) {
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.DialTimeout = -1, -1, time.Hour, time.Hour
	o.MaxRetries, o.DialerRetries = 1000, 1000
}

// What a client is told to do for its own commands is not for those of a Guard.
func TestClients_OptionsOfTheClientThatAreNotTheGuards(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	proxy := redistest.NewProxy(t, s.Addr())
	client := proxy.Client(t, endless, func(o *redis.Options) {
		o.Limiter = refusing{}
		o.MaxActiveConns, o.PoolSize = 1, 1
	})
	client.AddHook(refusing{})
	r := testenv.NewOn(t, s, proxy, client, guard.StoreTimeout(time.Second), guard.TTL(time.Second))
	require.NoError(t, r.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing))
	proxy.Freeze()
	failed := testenv.InBackground(func() error { return r.WithLock(t.Context(), guard.Key(t.Name()), testenv.Nothing) })
	require.ErrorIs(t, failed(t), guard.ErrStore)
	closed := testenv.InBackground(r.Close)
	require.NoError(t, closed(t))
	proxy.Thaw()
}

// A lease that outlives its Guard is given back, on a connection that is bounded as all
// others are.
func TestClients_AReleaseAfterCloseIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	proxy := redistest.NewProxy(t, s.Addr())
	r := testenv.NewOn(t, s, proxy, proxy.Client(t, endless), guard.StoreTimeout(time.Second))
	keys := []string{t.Name() + " in time", t.Name() + " silent"}
	var leases []*guard.Lease
	for _, key := range keys {
		l, err := r.Acquire(t.Context(), guard.Key(key))
		require.NoError(t, err)
		leases = append(leases, l)
	}
	require.NoError(t, r.Close())
	require.ErrorIs(t, leases[0].Release(t.Context()), guard.ErrClosed)
	assert.Empty(t, r.Hash(t, keys[0]))
	proxy.Freeze()
	silent := testenv.InBackground(func() error { return leases[1].Release(t.Context()) })
	require.ErrorIs(t, silent(t), guard.ErrClosed)
	proxy.Thaw()
	require.NoError(t, r.Direct.Del(context.WithoutCancel(t.Context()), testenv.LockOf(keys[1])).Err())
}
