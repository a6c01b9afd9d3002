package guardwatermill_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardwatermill "github.com/redlatch/redlatch/middleware/watermill"
)

// The test in docs/guides/watermill.md.
func TestGuide_ABusyMessage(t *testing.T) {
	handler := func(*message.Message) ([]*message.Message, error) { return nil, nil }
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:42")) // another message has it
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context())
		charge := guardwatermill.Middleware(g, guardwatermill.Lock("order:{order_id}"))(handler)
		_, err = charge(message.NewMessage("1", []byte(`{"order_id":42}`))) // waits 20 s of the bubble
		if !errors.Is(err, guard.ErrBusy) {
			t.Errorf("got %v, want a busy lock", err)
		}
	})
}
