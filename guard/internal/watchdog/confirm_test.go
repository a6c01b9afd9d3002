package watchdog_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Somebody deletes the key by hand. A caller of the same process that asks for the key makes the
// holder learn of it at once.
func TestConfirm_ADeletedKeyIsFoundMissingWhenSomebodyAsks(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order, guard.TTL(time.Minute))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		s.Drop("order:42")
		require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.TTL(time.Minute), guard.NoWait()), guard.ErrBusy)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), guard.ErrLost, "without any time")
		assert.Len(t, r.Events(guard.EventLoss), 1)
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.TTL(time.Minute), guard.NoWait()), "and the key is free")
	})
}

// What the store said a moment ago is good enough: a key that many want costs no command more.
func TestConfirm_AHoldIsConfirmedOnceASecondAtMost(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		ask := func(opts ...guard.LockOption) {
			opts = append(opts, guard.TTL(time.Minute), guard.NoWait())
			require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, opts...), guard.ErrBusy)
			synctest.Wait()
		}
		l, err := g.Acquire(t.Context(), testenv.Order, guard.TTL(time.Minute))
		require.NoError(t, err)
		for range 9 {
			ask()
			time.Sleep(100 * time.Millisecond)
		}
		assert.Equal(t, 0, s.Calls("renew"), "granted less than a second ago")
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			ask()
		}
		assert.Equal(t, 10, s.Calls("renew"))
		time.Sleep(18 * time.Second)
		assert.Equal(t, 10, s.Calls("renew"), "the next one is a third of the ttl after the last")
		time.Sleep(3 * time.Second)
		assert.Equal(t, 11, s.Calls("renew"))
		require.NoError(t, l.Release(t.Context()))
	})
}

// While the store does not answer, callers that ask send nothing more.
func TestConfirm_AHoldIsNotConfirmedWhileItsRenewalFails(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order, guard.TTL(time.Minute))
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		s.Fail(errors.New("down"))
		for range 60 {
			require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.TTL(time.Minute), guard.NoWait()), guard.ErrBusy)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, 1, s.Calls("renew"))
		s.Fail(nil)
		require.NoError(t, l.Release(t.Context()))
	})
}

// Somebody deletes by hand a key of which this process has all permits. Another caller that wants
// one has the first of these found missing at once, and gets its place.
func TestConfirm_ADeletedKeyIsFoundMissingByAPermit(t *testing.T) {
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
func TestConfirm_ADeletedKeyIsFoundMissingByReadersWhenTheyAsk(t *testing.T) {
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
