package guardtest_test

import (
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestMemoryStoreKeepsTheContract(t *testing.T) {
	guardtest.TestStore(t, func(testing.TB) guard.Store { return guardtest.NewStore() })
}
