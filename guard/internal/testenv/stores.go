package testenv

import (
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

// Table is what a Guard knows of the keys that its callers hold or want. Nothing but tests
// asks a Guard for it, so it has no method for it, and this reads the field.
func Table(g *guard.Guard) *cohort.Table {
	return (*cohort.Table)(reflect.ValueOf(g).Elem().FieldByName("cohorts").UnsafePointer())
}

// Remembered is how many keys and claims a Guard knows of at this moment.
func Remembered(g *guard.Guard) int {
	keys, claims, _ := Table(g).Size()
	return keys + claims
}

// Queued is how many callers stand in the queues of a Guard at this moment.
func Queued(g *guard.Guard) int {
	_, _, waiting := Table(g).Size()
	return waiting
}

// RedisStore is the Store that guard.New makes, but for its patience: a busy machine is no outage.
func RedisStore(tb testing.TB, client redis.UniversalClient, prefix string) guardstore.Store {
	s := redisstore.New(client, redisstore.Config{Prefix: prefix, AttemptTimeout: Patience})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}
