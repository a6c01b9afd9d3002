package guard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A call for several keys that waits for one of them is a caller like any other when the Guard
// is shut down, whatever it has by then: its work does not begin.
func TestShutdownSeveral_ShutdownEndsACallThatHasSomeOfItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		other, err := guard.NewWithStore(s)
		require.NoError(t, err)
		b, err := other.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			ended <- g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error {
				t.Error("work began after Shutdown")
				return nil
			})
		}()
		synctest.Wait()
		require.Equal(t, 1, s.Depth("a"))
		down := make(chan error, 1)
		go func() { down <- g.Shutdown(t.Context()) }()
		synctest.Wait()
		if assert.NotEmpty(t, ended, "it still waits") {
			require.ErrorIs(t, <-ended, guard.ErrClosed)
		}
		require.NoError(t, b.Release(t.Context()))
		require.NoError(t, <-down)
		require.NoError(t, other.Close())
	})
}

// Under a lease that was held before, a call for several keys goes on, as any nested one does.
func TestShutdownSeveral_ShutdownLetsNestedCallsForSeveralKeysGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		down, ran := make(chan error, 1), false
		require.NoError(t, g.WithLock(t.Context(), guard.Key("x"), func(ctx context.Context) error {
			go func() { down <- g.Shutdown(context.WithoutCancel(ctx)) }()
			synctest.Wait()
			return g.WithLocks(ctx, keysOf("a b"), func(context.Context) error { ran = true; return nil })
		}))
		assert.True(t, ran)
		require.NoError(t, <-down)
	})
}

// A key that is busy is asked for once where nobody waits for it.
func TestShutdownSeveral_SeveralKeysAreAskedForOnceWithoutAWait(t *testing.T) {
	r := testenv.New(t, redistest.Start(t))
	free := r.TakenByAnother(t, "b")
	defer free()
	asks := testenv.Both(testenv.RunsScript(t, "acquire"), redistest.Contains(testenv.LockOf("b")))
	var asked atomic.Int32
	r.Proxy.SwallowReply(func(req []byte) bool {
		if asks(req) {
			asked.Add(1)
		}
		return false
	}, 1)
	require.ErrorIs(t, r.WithLocks(t.Context(), keysOf("a b c"), testenv.Nothing, guard.NoWait()), guard.ErrBusy)
	assert.EqualValues(t, 1, asked.Load())
}
