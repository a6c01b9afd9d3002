package guard

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// poolSize bounds a pool of connections.
type poolSize struct{ most, idle int }

// lanePool is that of a lane: one connection.
var lanePool = poolSize{most: 1, idle: 1}

// privateClient makes a client with the options of another, except that a call's
// deadline holds, and that nothing is sent twice. A nil size is that of the client; common
// is what clients of the same server know of their connections.
func privateClient(client redis.UniversalClient, b bounds, size *poolSize, common *suspicion) redis.UniversalClient {
	if cluster, isCluster := client.(*redis.ClusterClient); isCluster {
		private := redis.NewClusterClient(privateClusterOptions(*cluster.Options(), b, size))
		private.OnNewNode(func(node *redis.Client) { node.AddHook(&suspicion{}) })
		return private
	}
	private := redis.NewClient(privateOptions(*client.(*redis.Client).Options(), b, size))
	private.AddHook(common)
	return private
}

func privateOptions(o redis.Options, b bounds, size *poolSize) *redis.Options {
	b.options(&o)
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = b.timeout, b.timeout, b.timeout, b.timeout
	o.DialerRetries, o.Dialer = 1, tirelessly(o.Dialer)
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	if size != nil {
		o.PoolSize, o.MaxIdleConns = size.most, size.idle
	}
	o.MaxConcurrentDials, o.PipelinePoolSize = 0, -1
	o.Limiter, o.PushNotificationProcessor, o.AutoPipelineOptions = nil, nil, nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}

// privateClusterOptions leaves most to the options of the nodes.
func privateClusterOptions(o redis.ClusterOptions, b bounds, size *poolSize) *redis.ClusterOptions {
	o.ContextTimeoutEnabled = true
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = b.timeout, b.timeout, b.timeout
	o.MinIdleConns = 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	newClient := o.NewClient
	o.NewClient = func(node *redis.Options) *redis.Client {
		model := newClient(node) // the user's function may have changed something
		defer func() { _ = model.Close() }()
		return redis.NewClient(privateOptions(*model.Options(), b, size))
	}
	if slots := o.ClusterSlots; slots != nil { // that of NewFailoverClusterClient asks Sentinel
		o.ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) {
			return bounded(ctx, b, "cluster slots", slots, func([]redis.ClusterSlot) {})
		}
	}
	return &o
}

// tirelessly makes of a dial that failed a connection that fails at first use. go-redis
// counts the former, and when there were as many as its pool is large, it does not dial
// for up to a second: that may be all that is left of a lease.
func tirelessly(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return stillborn{err}, nil //nolint:nilerr // it comes at the first use
		}
		return conn, nil
	}
}

type stillborn struct{ err error }

// SyscallConn is what go-redis looks at before it takes a connection from the idle ones.
func (c stillborn) SyscallConn() (syscall.RawConn, error) { return nil, c.err }

func (c stillborn) Read([]byte) (int, error)       { return 0, c.err }
func (c stillborn) Write([]byte) (int, error)      { return 0, c.err }
func (stillborn) Close() error                     { return nil }
func (stillborn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (stillborn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (stillborn) SetDeadline(time.Time) error      { return nil }
func (stillborn) SetReadDeadline(time.Time) error  { return nil }
func (stillborn) SetWriteDeadline(time.Time) error { return nil }
