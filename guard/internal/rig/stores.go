package rig

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/quorum"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// The tests of guard set these: only they see inside of a Guard.
var (
	// Remembered says how many keys and claims a Guard knows of at this moment.
	Remembered func(*guard.Guard) int
	// InLine says how many callers stand in the queues of a Guard at this moment.
	InLine func(*guard.Guard) int
)

// RedisStore is the Store that guard.New makes.
func RedisStore(tb testing.TB, client redis.UniversalClient, prefix string) guardstore.Store {
	s := redisstore.New(client, redisstore.Config{Prefix: prefix, AttemptTimeout: time.Second, Renewals: watchdog.Senders})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// QuorumStore is the Store that guard.NewQuorum makes.
func QuorumStore(tb testing.TB, clients []redis.UniversalClient, prefix string) guardstore.Store {
	s := quorum.New(clients, quorum.Config{Prefix: prefix, AttemptTimeout: time.Second, Renewals: watchdog.Senders})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}
