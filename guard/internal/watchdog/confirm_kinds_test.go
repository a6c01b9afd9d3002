package watchdog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Somebody deletes by hand a key of which this process has all permits. Another caller that wants
// one has the first of these found missing at once, and gets its place.
func TestConfirmKinds_ADeletedKeyIsFoundMissingByAPermit(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		opts := []guard.LockOption{guard.TTL(time.Minute), guard.Limit(2)}
		var permits []*guard.Lease
		for range 2 {
			l, err := g.Acquire(t.Context(), testenv.Order, opts...)
			require.NoError(t, err)
			permits = append(permits, l)
		}
		time.Sleep(2 * time.Second)
		s.Drop("order:42")
		begun := time.Now()
		next, err := g.Acquire(t.Context(), testenv.Order, opts...)
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun), "without any time")
		require.ErrorIs(t, permits[0].Err(), guard.ErrLost)
		synctest.Wait() // observers are notified from a goroutine
		assert.Len(t, r.Events(guard.EventLoss), 1)
		require.NoError(t, next.Release(t.Context()))
		require.ErrorIs(t, permits[0].Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, permits[1].Release(t.Context()), guard.ErrLost, "it asks when it is released")
	})
}

// A reader that comes to a key that was deleted by hand asks Redis itself, and gets in. That tells
// readers that are in already nothing: their next question does.
func TestConfirmKinds_ADeletedKeyIsFoundMissingByReadersWhenTheyAsk(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order, guard.TTL(time.Minute), guard.Shared())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		s.Drop("order:42")
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.TTL(time.Minute), guard.Shared()))
		synctest.Wait()
		require.NoError(t, l.Err())
		require.ErrorIs(t, l.Check(t.Context()), guard.ErrLost)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
	})
}
