package guardtest_test

import (
	"testing"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestContract_MemoryStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	store := func(testing.TB) guardstore.Store { return guardtest.NewStore() }
	guardtest.TestStore(t, store)
	guardtest.TestQueue(t, store)
	guardtest.TestLimits(t, store)
	guardtest.TestRecords(t, store)
}
