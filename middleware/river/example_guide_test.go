package guardriver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

// The test in docs/guides/river.md.
func TestGuide_ABusyJob(t *testing.T) {
	work := func(context.Context) error { return nil }
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another job has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		charge := guardriver.Middleware(g, guardriver.Lock("order:{order_id}"))
		err = charge.Work(t.Context(), &rivertype.JobRow{Kind: "charge_order", EncodedArgs: []byte(`{"order_id":42}`)}, work)
		if !errors.Is(err, &river.JobSnoozeError{}) {
			t.Errorf("got %v, want a snooze", err)
		}
	})
}
