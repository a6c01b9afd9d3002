package redisstore_test

import (
	"testing"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestRedisStoreKeepsTheContract(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		store := func(tb testing.TB) guardstore.Store { return testenv.RedisStore(tb, guardtest.NewRedis(tb), "guard") }
		guardtest.TestStore(t, store)
		guardtest.TestQueue(t, store)
		guardtest.TestLimits(t, store)
		guardtest.TestRecords(t, store)
	})
	t.Run("real", func(t *testing.T) {
		store := func(tb testing.TB) guardstore.Store {
			return testenv.RedisStore(tb, redistest.Start(tb).Client(tb), "guard")
		}
		guardtest.TestStore(t, store)
		guardtest.TestQueue(t, store)
		guardtest.TestLimits(t, store)
		guardtest.TestRecords(t, store)
	})
	t.Run("in company, embedded", func(t *testing.T) {
		store := func(tb testing.TB) guardstore.Store { return newCompany(tb, guardtest.NewRedis(tb)) }
		guardtest.TestStore(t, store)
		guardtest.TestQueue(t, store)
		guardtest.TestLimits(t, store)
	})
	t.Run("in company, real", func(t *testing.T) {
		store := func(tb testing.TB) guardstore.Store { return newCompany(tb, redistest.Start(tb).Client(tb)) }
		guardtest.TestStore(t, store)
		guardtest.TestQueue(t, store)
		guardtest.TestLimits(t, store)
	})
}
