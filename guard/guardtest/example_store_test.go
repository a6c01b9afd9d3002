package guardtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

var t = new(testing.T) // a test's own

// A test of what a program does when its lock is taken away: in a bubble, so that it takes no
// time.
func ExampleStoreOf() {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t) // with the t of the bubble
		err := g.WithLock(t.Context(), guard.Key("order:42"), func(ctx context.Context) error {
			guardtest.StoreOf(g).Drop("order:42")
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, guard.ErrLost) {
			t.Errorf("got %v, want a lost lock", err)
		}
	})
}
