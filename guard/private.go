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

// renewalPool has room for a probe beside the renewals. It keeps few connections idle: a
// network that forgets connections forgets those, too.
var renewalPool = poolSize{most: renewSenders + 1, idle: 2}

// lanePool is that of a lane: one connection.
var lanePool = poolSize{most: 1, idle: 1}

// privateClient makes a client with the options of another, except that a call's
// deadline holds, and that nothing is sent twice. For a client of a kind that cannot be
// copied it is that client itself. A nil size is that of the client; common is what clients
// of the same server know of their connections.
func privateClient(client redis.UniversalClient, timeout time.Duration, size *poolSize, common *suspicion) redis.UniversalClient {
	switch c := client.(type) {
	case *redis.Client:
		private := redis.NewClient(privateOptions(*c.Options(), timeout, size))
		private.AddHook(common)
		return private
	case *redis.ClusterClient:
		private := redis.NewClusterClient(privateClusterOptions(*c.Options(), timeout, size))
		private.OnNewNode(func(node *redis.Client) { node.AddHook(&suspicion{}) })
		return private
	}
	return client
}

func privateOptions(o redis.Options, timeout time.Duration, size *poolSize) *redis.Options {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
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

func privateClusterOptions(o redis.ClusterOptions, timeout time.Duration, size *poolSize) *redis.ClusterOptions {
	o.ContextTimeoutEnabled = true
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	if o.Dialer == nil {
		o.Dialer = redis.NewDialer(&redis.Options{DialTimeout: timeout, TLSConfig: o.TLSConfig})
	}
	o.DialerRetries, o.Dialer = 1, tirelessly(o.Dialer)
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	if size != nil {
		o.PoolSize, o.MaxIdleConns = size.most, size.idle
	}
	o.MaxConcurrentDials, o.PipelinePoolSize = 0, -1
	o.PushNotificationProcessor, o.AutoPipelineOptions = nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
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
