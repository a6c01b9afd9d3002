package guardasynq_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestStrategy_Strategies(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		strategy        guardasynq.Strategy
		revoke, archive bool
	}{
		"retry":   {guardasynq.Retry, false, false},
		"skip":    {guardasynq.SkipRun, true, false},
		"archive": {guardasynq.Archive, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := guardtest.NewStore()
			g, err := guard.NewWithStore(store, guard.StoreTimeout(10*time.Millisecond))
			require.NoError(t, err)
			t.Cleanup(func() { _ = g.Close() })
			var seen error
			mw := guardasynq.Middleware(g, orders(guard.NoWait()).BusyStrategy(row.strategy).OnError(
				func(_ context.Context, _ *asynq.Task, err error) error {
					seen = err
					return err
				}))
			assertMeaning := func(err error, revoke, archive bool) {
				t.Helper()
				assert.Equal(t, revoke, errors.Is(err, asynq.RevokeTask), "%v", err)
				assert.Equal(t, archive, errors.Is(err, asynq.SkipRetry), "%v", err)
			}

			held := hold(t, g)
			err = process(t.Context(), mw, never)
			var busy *guard.BusyError
			require.ErrorAs(t, err, &busy)
			assert.Equal(t, err, seen)
			assertMeaning(err, row.revoke, row.archive)
			release(t, held)

			// What the handler itself returns is not the strategy's business.
			own := &guard.BusyError{Name: "own"}
			err = process(t.Context(), mw, func(context.Context, *asynq.Task) error { return own })
			assert.Same(t, own, err)

			store.Fail(errOwn)
			err = process(t.Context(), mw, never)
			assert.ErrorIs(t, err, guard.ErrStore)
			assertMeaning(err, false, false)
			require.NoError(t, g.Close())
			err = process(t.Context(), mw, never)
			assert.ErrorIs(t, err, guard.ErrClosed)
			assertMeaning(err, false, false)
		})
	}
}

func TestStrategy_EndOfTheContextIsNoBusyLockToAStrategy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewGuard(t)
		held := hold(t, g)
		defer release(t, held)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			mw := guardasynq.Middleware(g, orders(guard.Wait(guard.Forever)).BusyStrategy(guardasynq.SkipRun))
			result <- process(ctx, mw, never)
		}()
		synctest.Wait()
		cancel()
		err := <-result
		assert.ErrorIs(t, err, guard.ErrBusy)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, asynq.RevokeTask)
	})
}
