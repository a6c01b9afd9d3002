package guardtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestBubble_StoreOfIsWhatTheGuardLocksOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t)
		s := guardtest.StoreOf(g)
		require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error {
			assert.Equal(t, 1, s.Depth("k"))
			return nil
		}))
		s.Fail(errors.New("down"))
		begun := time.Now()
		require.ErrorIs(t, g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }), guard.ErrStore)
		assert.Equal(t, guard.DefaultStoreTimeout, time.Since(begun))
	})
}

func TestBubble_StoreOfAnotherGuardSaysSo(t *testing.T) {
	g, err := guard.NewWithStore(guardtest.NewStore())
	require.NoError(t, err)
	defer g.Close()
	assert.PanicsWithValue(t, "guardtest: StoreOf was given a Guard that NewGuard did not make, or whose test has ended",
		func() { guardtest.StoreOf(g) })
}

func TestBubble_AnEmbeddedRedisDoesNotStartInABubble(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		_, err := guardtest.Start()
		assert.ErrorContains(t, err, "use NewGuard")
	})
}
