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
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

func TestClose_EndsLeasesAndWaiters(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		result := make(chan error, 2)
		started := make(chan struct{})
		go func() {
			result <- g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
				close(started)
				<-ctx.Done()
				assert.Equal(t, 1, s.Depth("order:42"), "taken while the work runs")
				return nil
			})
		}()
		<-started
		waiting := make(chan error, 1)
		go func() {
			waiting <- g.WithLock(t.Context(), testenv.Order, func(context.Context) error { t.Error("ran"); return nil })
		}()
		synctest.Wait()
		require.NoError(t, g.Close())
		require.NoError(t, g.Close())
		err := <-result
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, guard.ErrClosed)
		err = <-waiting
		require.ErrorIs(t, err, guard.ErrClosed)
		require.NotErrorIs(t, err, guard.ErrLost)
		assert.Equal(t, 0, s.Depth("order:42"), "given back when the work returned")
		synctest.Wait() // the watchdog tells the observers last
		assert.Equal(t, guard.OutcomeClosed, r.Observations("HoldEnd")[0].Hold.Outcome)

		require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }), guard.ErrClosed)
	})
}

func TestClose_FromInsideTheWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			require.NoError(t, g.Close())
			return ctx.Err()
		})
		require.ErrorIs(t, err, guard.ErrClosed)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}

// Under a lease of the Guard that shuts down, one may still lock; under another Guard's one is late.
func TestClose_ShutdownLetsNobodyInUnderALeaseOfAnotherGuard(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		other, err := guardtest.NewGuard(t).Acquire(t.Context(), guard.Key("other"))
		require.NoError(t, err)
		own, err := g.Acquire(t.Context(), guard.Key("own"))
		require.NoError(t, err)
		shut := make(chan error, 1)
		go func() { shut <- g.Shutdown(t.Context()) }()
		synctest.Wait()
		_, err = g.Acquire(other.Context(), guard.Key("late"))
		require.ErrorIs(t, err, guard.ErrClosed)
		nested, err := g.Acquire(own.Context(), guard.Key("nested"))
		require.NoError(t, err)
		require.NoError(t, nested.Release(t.Context()))
		require.NoError(t, own.Release(t.Context()))
		require.NoError(t, <-shut)
		require.NoError(t, other.Release(t.Context()))
	})
}

// Whoever forgot to release its lease, or works on without its lock, holds nothing up: with
// a context that does not end, Shutdown would never return.
func TestClose_ShutdownDoesNotWaitForWhatIsOver(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		forgotten, err := g.Acquire(t.Context(), guard.Key("forgotten"), guard.FixedLease())
		require.NoError(t, err)
		nested, err := g.Acquire(forgotten.Context(), guard.Key("forgotten"))
		require.NoError(t, err)
		release := make(chan struct{})
		deaf := make(chan error)
		go func() {
			deaf <- g.WithLock(t.Context(), testenv.Order, func(context.Context) error { <-release; return nil })
		}()
		synctest.Wait()
		s.Drop("order:42")
		live, err := g.Acquire(t.Context(), guard.Key("live"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.ErrorIs(t, forgotten.Err(), guard.ErrMaxHold)

		shut := make(chan error, 1)
		go func() { shut <- g.Shutdown(context.Background()) }()
		synctest.Wait()
		assert.Empty(t, shut, "one lease is live")
		require.ErrorIs(t, nested.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, forgotten.Release(t.Context()), guard.ErrLost)
		synctest.Wait()
		assert.Empty(t, shut, "what is over counts once")
		require.NoError(t, live.Release(t.Context()))
		require.NoError(t, <-shut)
		close(release)
		require.ErrorIs(t, <-deaf, guard.ErrLost)
	})
}

func TestClose_ShutdownGivesUpWithItsContext(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Shutdown(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, l.Err(), guard.ErrClosed)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrClosed)
	})
}

func TestClose_ANilGuardIsClosed(t *testing.T) {
	var g *guard.Guard
	require.NoError(t, g.Close())
	require.NoError(t, g.Shutdown(t.Context()))
	require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing), guard.ErrNoGuard)
	assert.Equal(t, "refused", (&guardstore.RefusedError{}).Error())
}

// entering is a context that says when it is first asked whether it is over: its caller
// was let in by then, and does not stand in the queue yet.
type entering struct {
	context.Context

	asked func()
}

func (c *entering) Err() error {
	if asked := c.asked; asked != nil {
		c.asked = nil
		asked()
	}
	return c.Context.Err()
}

// Those in the queue are told that the Guard shuts down, once. Who comes into the queue after that
// would wait for ever. Who waits under a lease goes on.
func TestClose_WhoComesIntoTheQueueAfterShutdownIsRefused(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		other, err := g.Acquire(t.Context(), guard.Key("other"))
		require.NoError(t, err)
		wait := func(ctx context.Context) <-chan error {
			result := make(chan error, 1)
			go func() { result <- g.WithLock(ctx, testenv.Order, func(ctx context.Context) error { return ctx.Err() }) }()
			return result
		}
		first, nested := wait(t.Context()), wait(other.Context())
		synctest.Wait()

		shut := make(chan error, 1)
		late := wait(&entering{t.Context(), func() {
			go func() { shut <- g.Shutdown(t.Context()) }()
			require.ErrorIs(t, <-first, guard.ErrClosed)
		}})
		synctest.Wait()
		select {
		case err := <-late:
			require.ErrorIs(t, err, guard.ErrClosed)
		default:
			t.Error("waits for a Guard that shuts down")
		}

		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-nested)
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, <-shut)
	})
}
