package guardtest_test

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// A test of code that nests locks fails if it does so in two orders, also when nobody waited
// for anybody in this run.
func ExampleOrder() {
	_ = func(t *testing.T) {
		g := guardtest.NewGuard(t, guard.Observe(guardtest.Order(t)))
		err := g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
			return g.WithLock(ctx, guard.Key("account:7"), func(context.Context) error {
				return nil
			}, guard.Name("account"))
		}, guard.Name("order"))
		if err != nil {
			t.Fatal(err)
		}
	}
	// Output:
}
