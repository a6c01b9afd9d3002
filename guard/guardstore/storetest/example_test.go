package storetest_test

import (
	"testing"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardstore/storetest"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// The contract of a store of your own, as subtests.
func ExampleTestStore() {
	_ = func(t *testing.T) {
		newStore := func(testing.TB) guardstore.Store { return guardtest.NewStore() } // yours
		storetest.TestStore(t, newStore)
		storetest.TestQueue(t, newStore)
		storetest.TestLimits(t, newStore)
	}
	// Output:
}
