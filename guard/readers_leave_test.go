package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// A release whose reply was lost is repeated. It finds nothing then, as it took effect before,
// and somebody else released since: that is no loss.
func TestReadersLeave_ARepeatedReleaseThatFindsNothingIsNoLoss(t *testing.T) {
	for name, kind := range map[string]guard.LockOption{"reader": guard.Shared(), "permit": guard.Limit(2)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &troubled{Store: guardtest.NewStore()}
				g, err := guard.NewWithStore(s)
				require.NoError(t, err)
				other, err := guard.NewWithStore(s.Store)
				require.NoError(t, err)
				lease, err := g.Acquire(t.Context(), guard.Key("a"), kind)
				require.NoError(t, err)
				beside, err := other.Acquire(t.Context(), guard.Key("a"), kind)
				require.NoError(t, err)
				lost := 0
				s.trouble(nil, times(1, "release", "a", func() error {
					lost++
					require.NoError(t, beside.Release(t.Context()))
					return errReply
				}))
				require.NoError(t, lease.Release(t.Context()))
				assert.Equal(t, 1, lost)
				require.NoError(t, g.Close())
				require.NoError(t, other.Close())
			})
		})
	}
}

// A reader that is not the last one asks whether it held the lock to the end. WithLock waits
// for that as long as for a release.
func TestReadersLeave_AReaderThatLeavesDoesNotWaitForASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: guardtest.NewStore()}
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		stays, err := g.Acquire(t.Context(), guard.Key("a"), guard.Shared())
		require.NoError(t, err)
		var begun time.Time
		require.NoError(t, g.WithLock(t.Context(), guard.Key("a"), func(ctx context.Context) error {
			lease, _ := guard.FromContext(ctx)
			require.Equal(t, stays.Owner(), lease.Owner(), "they share nothing")
			time.Sleep(time.Second)
			s.trouble(func(ctx context.Context, op, _ string) error {
				if op != "depth" {
					return nil
				}
				<-ctx.Done()
				return errReply
			}, nil)
			begun = time.Now()
			return nil
		}, guard.Shared()))
		assert.Equal(t, 250*time.Millisecond, time.Since(begun))
		s.trouble(nil, nil)
		require.NoError(t, stays.Release(t.Context()))
		require.NoError(t, g.Close())
	})
}
