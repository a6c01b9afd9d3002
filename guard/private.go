package guard

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// privateClient makes a client with the options of another, except that a call's
// deadline holds, and that nothing is sent twice. For a client of a kind that cannot be
// copied it is that client itself.
func privateClient(client redis.UniversalClient, timeout time.Duration) redis.UniversalClient {
	switch c := client.(type) {
	case *redis.Client:
		return redis.NewClient(privateOptions(*c.Options(), timeout))
	case *redis.ClusterClient:
		return redis.NewClusterClient(privateClusterOptions(*c.Options(), timeout))
	}
	return client
}

func privateOptions(o redis.Options, timeout time.Duration) *redis.Options {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.DialerRetries = 1
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	o.MaxConcurrentDials, o.PipelinePoolSize = 0, -1
	o.Limiter, o.PushNotificationProcessor, o.AutoPipelineOptions = nil, nil, nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}

func privateClusterOptions(o redis.ClusterOptions, timeout time.Duration) *redis.ClusterOptions {
	o.ContextTimeoutEnabled = true
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	o.DialerRetries = 1
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	o.MaxConcurrentDials, o.PipelinePoolSize = 0, -1
	o.PushNotificationProcessor, o.AutoPipelineOptions = nil, nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &o
}
