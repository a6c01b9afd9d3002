package guard

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisStore gives tests the Store that New makes.
func RedisStore(tb testing.TB, client redis.UniversalClient, prefix string) Store {
	s := newRedisStore(client, prefix, time.Second)
	tb.Cleanup(func() { _ = s.close() })
	return s
}
