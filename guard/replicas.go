package guard

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicas is how many replicas have to know of a hold before it counts, and how long that may
// take.
type replicas struct {
	n       int
	timeout time.Duration
}

// Replicas makes New ask Redis, with each acquisition, to wait until n replicas know of it
// (WAIT: https://redis.io/docs/latest/commands/wait/), for at most timeout. With fewer, the
// lock is not acquired: what Redis holds is given back, and after StoreTimeout the call
// ends with a StoreError. That narrows the window in which a failover loses a lock; it does
// not close it, because a replica that knows less may be promoted. Renewals do not wait.
//
// n is 1 at least, timeout between 1 ms and half of StoreTimeout. It is for one Redis with
// replicas, with or without Sentinel: not for a cluster, nor for NewWithStore. It costs the
// acquisition a round trip from Redis to its replicas, and keeps its connection meanwhile.
func Replicas(n int, timeout time.Duration) Option {
	return guardOption(func(c *config) error {
		if n < 1 {
			return &OptionError{"Replicas", fmt.Sprintf("%d is less than 1", n)}
		}
		if timeout < time.Millisecond {
			return &OptionError{"Replicas", fmt.Sprintf("timeout %v is less than %v", timeout, time.Millisecond)}
		}
		c.replicas = replicas{n, timeout}
		return nil
	})
}

// check returns an error for what the option cannot be used with.
func (r replicas) check(client redis.UniversalClient, c config) error {
	if r.n == 0 {
		return nil
	}
	if _, single := client.(*redis.Client); !single {
		return &OptionError{"Replicas", "is for one Redis with replicas"}
	}
	if most := c.storeTimeout / 2; r.timeout > most {
		return &OptionError{"Replicas", fmt.Sprintf("timeout %v is more than %v, half of StoreTimeout", r.timeout, most)}
	}
	return nil
}
