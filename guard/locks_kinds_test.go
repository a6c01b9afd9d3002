package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// What MinHold, Limit and Shared mean for several keys at once.

// freeAfter is how long a key stays taken.
func freeAfter(t *testing.T, g *guard.Guard, key string) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		err := g.WithLock(t.Context(), guard.Key(key), testenv.Nothing, guard.NoWait())
		if err == nil {
			return time.Since(begun)
		}
		require.ErrorIs(t, err, guard.ErrBusy)
		time.Sleep(time.Millisecond)
	}
}

// Each key counts from its own grant: the first one was had while the second one was waited for.
func TestLocksKinds_MinHoldOfSeveralKeysCountsFromTheGrantOfEach(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		other := mustGuard(t, s)
		second, err := other.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		var work time.Time
		result := testenv.InBackground(func() error {
			return g.WithLocks(t.Context(), keysOf("b a"), func(context.Context) error {
				work = time.Now()
				return errors.New("also if it fails")
			}, guard.MinHold(10*time.Second))
		})
		synctest.Wait()
		begun := time.Now()
		time.Sleep(4 * time.Second)
		require.NoError(t, second.Release(t.Context()))
		require.ErrorContains(t, result(t), "also if it fails")
		require.WithinDuration(t, begun.Add(4*time.Second), work, 100*time.Millisecond)
		for _, key := range []string{"a", "b"} {
			err := other.WithLock(t.Context(), guard.Key(key), testenv.Nothing, guard.NoWait())
			var busy *guard.BusyError
			require.ErrorAs(t, err, &busy)
			assert.True(t, busy.Done, key)
		}
		freeAfter(t, other, "a")
		assert.InDelta(t, 10*time.Second, time.Since(begun), float64(100*time.Millisecond), "since a was had")
		freeAfter(t, other, "b")
		assert.InDelta(t, 10*time.Second, time.Since(work), float64(100*time.Millisecond), "since b was had")
	})
}

// A key that was lost is nobody's to keep; the others are kept, for work ran under them. One
// that the context held before has what its own call said.
func TestLocksKinds_MinHoldOfSeveralKeysWithALossAndWithAnOuterHold(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		err := g.WithLocks(t.Context(), keysOf("a b"), func(ctx context.Context) error {
			s.Drop("b")
			<-ctx.Done()
			return nil
		}, guard.MinHold(time.Hour))
		require.ErrorIs(t, err, guard.ErrLost)
		other := mustGuard(t, s)
		assert.Zero(t, freeAfter(t, other, "b"))
		require.ErrorIs(t, other.WithLock(t.Context(), guard.Key("a"), testenv.Nothing, guard.NoWait()), guard.ErrBusy)

		require.NoError(t, g.WithLock(t.Context(), guard.Key("d"), func(ctx context.Context) error {
			return g.WithLocks(ctx, keysOf("c d"), testenv.Nothing, guard.MinHold(time.Second))
		}))
		assert.Zero(t, freeAfter(t, other, "d"), "the outer call asked for nothing")
		assert.InDelta(t, time.Second, freeAfter(t, other, "c"), float64(10*time.Millisecond))
	})
}

// The limit is one of each key, and a call is inside of all or of none.
func TestLocksKinds_LimitOfSeveralKeys(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		other := mustGuard(t, s)
		first, err := g.AcquireAll(t.Context(), keysOf("a b"), guard.Limit(2))
		require.NoError(t, err)
		second, err := other.AcquireAll(t.Context(), keysOf("b c"), guard.Limit(2), guard.Wait(time.Minute))
		require.NoError(t, err, "two may have b")

		err = other.WithLocks(t.Context(), keysOf("a b"), testenv.Nothing, guard.Limit(2), guard.NoWait())
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "b", busy.Key)
		assert.Equal(t, 2, busy.Limit)
		err = g.WithLocks(t.Context(), keysOf("a d"), func(ctx context.Context) error {
			for _, key := range []string{"a", "d"} {
				_, held := guard.Held(ctx, key)
				assert.False(t, held, "a permit is no exclusive lease")
			}
			_, fenced := guard.Fence(ctx)
			assert.False(t, fenced)
			lease, ok := guard.FromContext(ctx)
			require.True(t, ok)
			assert.Equal(t, "d", lease.Key(), "the one that was taken last")
			assert.Equal(t, 2, lease.Limit())
			return nil
		}, guard.Limit(2), guard.NoWait())
		require.NoError(t, err, "what was given back is free, and one more fits on a")
		require.ErrorIs(t, g.WithLocks(t.Context(), keysOf("a d"), testenv.Nothing, guard.NoWait()), guard.ErrBusy, "alone")
		assert.Zero(t, freeAfter(t, g, "d"), "it was given back")

		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, second.Release(t.Context()))
		for _, key := range []string{"a", "b", "c", "d"} {
			assert.Zero(t, freeAfter(t, other, key), key)
		}
	})
}

// Readers of crossing sets are beside each other; a writer of all waits for all, and no reader
// passes it.
func TestLocksKinds_SharedOfSeveralKeys(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		other := mustGuard(t, s)
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		ab, err := g.AcquireAll(t.Context(), keysOf("a b"), guard.Shared())
		require.NoError(t, err)
		ba, err := other.AcquireAll(t.Context(), keysOf("b a"), guard.Shared(), guard.Wait(time.Minute))
		require.NoError(t, err)
		writer := testenv.InBackground(func() error {
			return other.WithLocks(t.Context(), keysOf("b a"), func(context.Context) error { note("writer"); return nil })
		})
		synctest.Wait()
		time.Sleep(guard.DefaultHandoverWindow) // until then a reader of g joins that of g
		reader := testenv.InBackground(func() error {
			return g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { note("reader"); return nil }, guard.Shared())
		})
		synctest.Wait()
		note("released")
		require.NoError(t, ab.Release(t.Context()))
		require.NoError(t, ba.Release(t.Context()))
		require.NoError(t, writer(t))
		require.NoError(t, reader(t))
		assert.Equal(t, []string{"released", "writer", "reader"}, order)
	})
}

// One key that is held less strictly is enough to refuse all, at once and with nothing taken.
func TestLocksKinds_SeveralKeysDoNotUpgrade(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		err := g.WithLock(t.Context(), guard.Key("b"), func(ctx context.Context) error {
			begun := time.Now()
			err := g.WithLocks(ctx, keysOf("a b c"), testenv.Nothing)
			var upgrade *guard.UpgradeError
			require.ErrorAs(t, err, &upgrade)
			assert.Equal(t, "b", upgrade.Key)
			assert.Zero(t, time.Since(begun))
			noneHeld(t, s, "a c")
			return g.WithLocks(ctx, keysOf("a b c"), testenv.Nothing, guard.Shared())
		}, guard.Shared())
		require.NoError(t, err)
		noneHeld(t, s, "a b c")
	})
}
