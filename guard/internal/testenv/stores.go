package testenv

import (
	"container/list"
	"reflect"
	"sync"
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

// Size is how many keys and claims a Table has at this moment, and how many callers wait. It reads fields, as Table does.
func Size(t *cohort.Table) (keys, claims, waiting int) {
	table := reflect.ValueOf(t).Elem()
	notifier, cohorts := table.FieldByName("notifier").Elem(), table.FieldByName("cohorts")
	for _, of := range []reflect.Value{table, notifier} {
		mu := (*sync.Mutex)(of.FieldByName("mu").Addr().UnsafePointer())
		mu.Lock()
		defer mu.Unlock()
	}
	for each := cohorts.MapRange(); each.Next(); {
		waiting += (*list.List)(each.Value().Elem().FieldByName("queue").Addr().UnsafePointer()).Len()
	}
	return cohorts.Len(), notifier.FieldByName("claims").Len(), waiting
}

// Remembered is how many keys and claims a Guard knows of at this moment.
func Remembered(g *guard.Guard) int {
	keys, claims, _ := Size(Table(g))
	return keys + claims
}

// Queued is how many callers stand in the queues of a Guard at this moment.
func Queued(g *guard.Guard) int {
	_, _, waiting := Size(Table(g))
	return waiting
}

// RedisStore is the Store that guard.New makes, with more patience: a busy machine is no outage.
func RedisStore(tb testing.TB, client redis.UniversalClient, prefix string) guardstore.Store {
	s := redisstore.New(client, redisstore.Config{Prefix: prefix, AttemptTimeout: Patience})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}
