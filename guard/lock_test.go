package guard_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
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

func TestLock_WithLockReturnsTheWorksOwnError(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		boom := errors.New("boom")
		err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			assert.Equal(t, 1, s.Depth("order:42"))
			require.NoError(t, ctx.Err())
			return boom
		})
		assert.Same(t, boom, err)
		assert.Equal(t, 0, s.Depth("order:42"))

		n, err := guard.Do(t.Context(), g, testenv.Order, func(context.Context) (int, error) { return 7, boom })
		assert.Equal(t, 7, n)
		assert.Same(t, boom, err)
	})
}

func TestLock_PanicAndGoexitReleaseAndGoOn(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		value := &struct{ int }{1}
		func() {
			defer func() { assert.Same(t, value, recover()) }()
			_ = g.WithLock(t.Context(), testenv.Order, func(context.Context) error { panic(value) })
		}()
		assert.Equal(t, 0, s.Depth("order:42"))

		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = g.WithLock(t.Context(), testenv.Order, func(context.Context) error { runtime.Goexit(); return nil })
			t.Error("Goexit was stopped")
		}()
		<-done
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}

func TestLock_ContextThatIsOverBeforeAnyAnswerIsNotBusy(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		err := g.WithLock(ctx, testenv.Order, func(context.Context) error { t.Error("ran"); return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		require.NotErrorIs(t, err, guard.ErrBusy)
		assert.Zero(t, s.Calls("acquire"))
	})
}

func TestLock_CrashedHolderIsFollowedWhenItsTTLIsOver(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		_, err := s.Acquire(t.Context(), guardstore.Claim{Key: "order:42", Owner: "crashed", TTL: 20 * time.Second})
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }))
		assert.GreaterOrEqual(t, time.Since(start), 20*time.Second)
		assert.Less(t, time.Since(start), 21*time.Second)
	})
}

func TestLock_StoreOutage(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		down := errors.New("down")
		s.Fail(down)
		start := time.Now()
		err := g.WithLock(t.Context(), testenv.Order, func(context.Context) error { t.Error("ran"); return nil })
		var storeErr *guard.StoreError
		require.ErrorAs(t, err, &storeErr)
		require.ErrorIs(t, err, down)
		assert.Equal(t, "order:42", storeErr.Key)
		assert.Equal(t, "acquire", storeErr.Op)
		assert.Equal(t, 2*time.Second, time.Since(start), "StoreTimeout")

		ran := false
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			_, held := guard.Held(ctx, "order:42")
			assert.False(t, held)
			ran = true
			return nil
		}, guard.FailOpen()))
		assert.True(t, ran)
		assert.Len(t, r.Events(guard.FailedOpen), 1)
		_, err = g.Acquire(t.Context(), testenv.Order, guard.FailOpen())
		var optErr *guard.OptionError
		require.ErrorAs(t, err, &optErr)

		s.Fail(&guardstore.RefusedError{Err: down})
		start = time.Now()
		require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }), guard.ErrStore)
		assert.Zero(t, time.Since(start), "a refusal is not repeated")

		s.Fail(nil)
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }))
	})
}

func TestLock_UndeliverableReleaseIsNoErrorOfTheWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error {
			s.Fail(errors.New("down"))
			return nil
		}))
		assert.Len(t, r.Events(guard.ReleaseFailure), 1)
		time.Sleep(5 * time.Second)
		s.Fail(nil)
		time.Sleep(time.Second)
		assert.Equal(t, 0, s.Depth("order:42"), "released behind the caller")

		l, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		s.Fail(errors.New("down"))
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrStore)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrStore, "later calls say the same")
		s.Fail(nil)
	})
}

func TestLock_ReleaseIsSentThoughTheContextIsOver(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		err := g.WithLock(ctx, testenv.Order, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, guard.ErrLost)
		assert.Equal(t, 0, s.Depth("order:42"))

		l, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		_ = l.Release(ctx)
		synctest.Wait()
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}

func TestLock_SiblingsExcludeEachOther(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		inside, most := 0, 0
		var mu sync.Mutex
		work := func(context.Context) error {
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inside--
			mu.Unlock()
			return nil
		}
		both := func(ctx context.Context) {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { assert.NoError(t, g.WithLock(ctx, testenv.Order, work)) })
			}
			wg.Wait()
		}
		require.NoError(t, g.WithLock(t.Context(), guard.Key("other"), func(ctx context.Context) error {
			both(ctx)
			return nil
		}))
		assert.Equal(t, 1, most, "their parent does not hold the key")
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			both(ctx)
			return nil
		}))
		assert.Equal(t, 2, most, "their parent holds the key")
	})
}

func TestLock_PackageLevelGuard(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		held := func(context.Context) error { assert.Equal(t, 1, s.Depth("order:42")); return nil }
		require.ErrorIs(t, guard.WithLock(t.Context(), testenv.Order, held), guard.ErrNoGuard)
		_, err := guard.Do(t.Context(), nil, testenv.Order, func(context.Context) (int, error) { return 1, nil })
		require.ErrorIs(t, err, guard.ErrNoGuard)
		require.NoError(t, guard.WithLock(guard.WithGuard(t.Context(), g), testenv.Order, held))
		require.NoError(t, g.WithLock(t.Context(), guard.Key("outer"), func(ctx context.Context) error {
			return guard.WithLock(ctx, testenv.Order, held)
		}), "the Guard of the lock that ctx holds")

		guard.SetDefault(g)
		defer guard.SetDefault(nil)
		require.NoError(t, guard.WithLock(t.Context(), testenv.Order, held))
		n, err := guard.Do(t.Context(), nil, testenv.Order, func(ctx context.Context) (int, error) { return 1, held(ctx) })
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}
