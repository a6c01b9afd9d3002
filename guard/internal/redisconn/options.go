package redisconn

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options are what Open needs to know.
type Options struct {
	AttemptTimeout time.Duration // for what goes over a connection once
	// OnClient is called with each client of go-redis that is made; nil = nothing is.
	OnClient func(client redis.UniversalClient)
}

// renewalsIdle is how many connections for renewals and messages are kept idle. When a network forgets
// connections, each idle one costs a renewal an attempt.
const renewalsIdle = 1

// newClient makes a client of go-redis that leads where the user's client leads. The user's options say
// where that is, and who asks: addresses, dialer, TLS, name and credentials, database, protocol, buffers, pool
// size and the age of connections. All others are the Guard's: a context's deadline holds, and nothing is
// sent twice.
func (o *Options) newClient(user redis.UniversalClient, idle int, p *primary) redis.UniversalClient {
	var client redis.UniversalClient
	if cluster, ok := user.(*redis.ClusterClient); ok {
		client = redis.NewClusterClient(o.cluster(cluster.Options(), idle))
	} else {
		options := o.single(user.(*redis.Client).Options(), idle)
		options.Dialer = heeding(p.dialer(options.Dialer))
		client = redis.NewClient(options)
	}
	if o.OnClient != nil {
		o.OnClient(client)
	}
	return client
}

func (o *Options) single(user *redis.Options, idle int) *redis.Options {
	return &redis.Options{
		Network: user.Network, Addr: user.Addr, Dialer: user.Dialer, TLSConfig: user.TLSConfig, OnConnect: user.OnConnect,
		Protocol: user.Protocol, DB: user.DB, Username: user.Username, Password: user.Password,
		CredentialsProvider: user.CredentialsProvider, CredentialsProviderContext: user.CredentialsProviderContext,
		StreamingCredentialsProvider: user.StreamingCredentialsProvider,
		ClientName:                   user.ClientName,
		DisableIdentity:              user.DisableIdentity || user.DisableIndentity, //nolint:staticcheck // users may set it
		IdentitySuffix:               user.IdentitySuffix, ReadBufferSize: user.ReadBufferSize, WriteBufferSize: user.WriteBufferSize,
		PoolSize: max(user.PoolSize, inFlight), MaxIdleConns: idle,
		ConnMaxIdleTime: user.ConnMaxIdleTime, ConnMaxLifetime: user.ConnMaxLifetime,

		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: user.DialTimeout, ReadTimeout: o.AttemptTimeout, WriteTimeout: o.AttemptTimeout, PoolTimeout: o.AttemptTimeout,
		MaintNotificationsConfig: noNotifications(),
	}
}

func (o *Options) cluster(user *redis.ClusterOptions, idle int) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: user.Addrs, NewClient: user.NewClient, ClusterSlots: user.ClusterSlots, MaxRedirects: user.MaxRedirects,
		Dialer: heeding(user.Dialer), TLSConfig: user.TLSConfig, OnConnect: user.OnConnect,
		Protocol: user.Protocol, Username: user.Username, Password: user.Password,
		CredentialsProvider: user.CredentialsProvider, CredentialsProviderContext: user.CredentialsProviderContext,
		StreamingCredentialsProvider: user.StreamingCredentialsProvider,
		ClientName:                   user.ClientName,
		DisableIdentity:              user.DisableIdentity || user.DisableIndentity, //nolint:staticcheck // users may set it
		IdentitySuffix:               user.IdentitySuffix, ReadBufferSize: user.ReadBufferSize, WriteBufferSize: user.WriteBufferSize,
		PoolSize: max(user.PoolSize, inFlight), MaxIdleConns: idle, FailingTimeoutSeconds: user.FailingTimeoutSeconds,
		ConnMaxIdleTime: user.ConnMaxIdleTime, ConnMaxLifetime: user.ConnMaxLifetime,

		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: user.DialTimeout, ReadTimeout: o.AttemptTimeout, WriteTimeout: o.AttemptTimeout, PoolTimeout: o.AttemptTimeout,
		MaintNotificationsConfig: noNotifications(),
	}
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// heeding makes a dialer return when its context ends, as go-redis's own over TLS does not. Close would else wait for a
// subscription that dials. A connection that comes later is closed.
func heeding(dial dialFunc) dialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		type dialled struct {
			conn net.Conn
			err  error
		}
		done := make(chan dialled, 1)
		go func() {
			d := dialled{err: fmt.Errorf("dial %s: panic", addr)}
			defer func() {
				_ = recover() // as go-redis does
				done <- d
			}()
			d.conn, d.err = dial(ctx, network, addr)
		}()
		select {
		case d := <-done:
			return d.conn, d.err
		case <-ctx.Done():
			go func() {
				if d := <-done; d.err == nil {
					_ = d.conn.Close()
				}
			}()
			return nil, ctx.Err()
		}
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Unfit returns why a client, which is not nil, cannot be used, as the end of a sentence that begins with its type, or "".
// taken are the kinds that the constructor takes.
func Unfit(client redis.UniversalClient, constructor, taken string) string {
	switch client.(type) {
	case *redis.Client, *redis.ClusterClient:
		if reflect.ValueOf(client).Elem().IsZero() {
			return " that go-redis did not make"
		}
		return ""
	case *redis.Ring:
		return ": it takes a shard that hangs out of use, and its locks would have two holders"
	}
	return "; give " + constructor + " the " + taken + " itself: a wrapper hides what " + constructor +
		" has to know, and its timeouts cannot be bound"
}
