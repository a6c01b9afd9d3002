package redisconn

import (
	"context"
	"net"
	"reflect"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// poolSize bounds a pool of connections.
type poolSize struct{ most, idle int }

// oneConn is the pool of a conn.
var oneConn = poolSize{most: 1, idle: 1}

// dedicatedClient makes a client with the options of another, except that a call's
// deadline holds, and that nothing is sent twice. A nil size is that of the client. Clients of
// the same server share s; each node of a cluster has its own.
func dedicatedClient(client redis.UniversalClient, b bounds, size *poolSize, s *server) redis.UniversalClient {
	if cluster, isCluster := client.(*redis.ClusterClient); isCluster {
		return redis.NewClusterClient(dedicatedClusterOptions(*cluster.Options(), b, size))
	}
	dedicated := redis.NewClient(dedicatedOptions(*client.(*redis.Client).Options(), b, size, s))
	s.watch(dedicated)
	return dedicated
}

func dedicatedOptions(o redis.Options, b bounds, size *poolSize, s *server) *redis.Options {
	b.options(&o)
	o.DialerRetries, o.Dialer = 1, deferDialError(s.dialer(b, o.DialTimeout, o.Dialer))
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = b.timeout, b.timeout, b.timeout, b.timeout
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	if size != nil {
		o.PoolSize, o.MaxIdleConns = size.most, size.idle
	}
	o.Limiter, o.PushNotificationProcessor, o.MaxConcurrentDials = nil, nil, 0
	setNewerOptions(&o)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}

// newerOptions came with go-redis 9.22. They are set by name, as the oldest that guard builds on lacks them. A nil
// value is the zero value.
var newerOptions = map[string]any{
	"PipelinePoolSize": -1, "AutoPipelineOptions": nil, "ClientSideCache": nil, "ClientSideCacheConfig": nil,
}

func setNewerOptions(o *redis.Options) {
	options := reflect.ValueOf(o).Elem()
	for name, value := range newerOptions {
		switch field := options.FieldByName(name); {
		case !field.IsValid():
		case value == nil:
			field.SetZero()
		default:
			field.Set(reflect.ValueOf(value))
		}
	}
}

// dedicatedClusterOptions leaves most to the options of the nodes.
func dedicatedClusterOptions(o redis.ClusterOptions, b bounds, size *poolSize) *redis.ClusterOptions {
	o.ContextTimeoutEnabled = true
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.ReadTimeout, o.WriteTimeout = b.timeout, b.timeout
	o.MinIdleConns = 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	newClient := o.NewClient
	o.NewClient = func(node *redis.Options) *redis.Client {
		model := newClient(node) // the user's function may have changed something
		defer func() { _ = model.Close() }()
		return redis.NewClient(dedicatedOptions(*model.Options(), b, size, newServer()))
	}
	if slots := o.ClusterSlots; slots != nil { // that of NewFailoverClusterClient asks Sentinel
		o.ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) {
			return bounded(ctx, b, "cluster slots", slots, func([]redis.ClusterSlot) {})
		}
	}
	return &o
}

// deferDialError makes of a dial that failed a connection that fails at first use. go-redis
// counts the former, and when there were as many as its pool is large, it does not dial
// for up to a second: that may be all that is left of a lease.
func deferDialError(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{err}, nil //nolint:nilerr // it comes at the first use
		}
		return conn, nil
	}
}

type failedConn struct{ err error }

// SyscallConn is what go-redis looks at before it takes a connection from the idle ones.
func (c failedConn) SyscallConn() (syscall.RawConn, error) { return nil, c.err }

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }
