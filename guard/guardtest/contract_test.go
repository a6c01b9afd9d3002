package guardtest_test

import (
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestMemoryStoreKeepsTheContract(t *testing.T) {
	store := func(testing.TB) guard.Store { return guardtest.NewStore() }
	guardtest.TestStore(t, store)
	guardtest.TestQueue(t, store)
}
