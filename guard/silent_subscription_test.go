package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// silent is a store that does not answer, nor a subscription.
type silent struct{ *guardtest.Store }

func (s silent) Acquire(ctx context.Context, _ guardstore.Claim) (guardstore.ClaimReply, error) {
	<-ctx.Done()
	return guardstore.ClaimReply{}, ctx.Err()
}

func (s silent) Listen(ctx context.Context, _ string, _ guardstore.Listener) { <-ctx.Done() }

// The first call of a Guard that may wait subscribes before it asks. Both together take no longer
// than StoreTimeout.
func TestSilentSubscription_TheFirstCallFailsWithinStoreTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := guard.NewWithStore(silent{guardtest.NewStore()}, guard.StoreTimeout(2*time.Second))
		require.NoError(t, err)
		begun := time.Now()
		_, err = g.Acquire(t.Context(), guard.Key("k"))
		require.ErrorIs(t, err, guard.ErrStore)
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
		require.NoError(t, g.Close())
	})
}
