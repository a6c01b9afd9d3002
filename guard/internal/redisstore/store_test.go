package redisstore_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Alone each command is a script of its own, in company it is one of a batch.
func TestRedisStore_KeepsTheContract(t *testing.T) {
	t.Parallel()
	contract := func(t *testing.T, client redis.UniversalClient, inCompany bool) {
		t.Helper()
		t.Parallel()
		n := 0
		store := func(tb testing.TB) guardstore.Store {
			n++
			s := testenv.RedisStore(tb, client, "contract"+strconv.Itoa(n))
			if inCompany {
				return &company{Store: s, tb: tb}
			}
			return s
		}
		storetest.TestStore(t, store)
		storetest.TestQueue(t, store)
		storetest.TestLimits(t, store)
		if !inCompany {
			storetest.TestRecords(t, store)
		}
	}
	t.Run("embedded", func(t *testing.T) { contract(t, guardtest.NewRedis(t), false) })
	t.Run("real", func(t *testing.T) { contract(t, redistest.Start(t).Client(t), false) })
	t.Run("in company", func(t *testing.T) { contract(t, redistest.Start(t).Client(t), true) })
}
