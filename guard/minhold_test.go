package guard_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

func TestMinHold_KeepsTheKeyWhateverCameOfTheWork(t *testing.T) {
	for name, work := range map[string]func(context.Context) error{
		"done":   nothing,
		"panic":  func(context.Context) error { panic("boom") },
		"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
		"longer": func(context.Context) error { time.Sleep(time.Minute); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				granted := time.Now()
				apart(func() { _ = g.WithLock(t.Context(), k, work, guard.MinHold(time.Second)) })
				worked, renewals := time.Since(granted), g.s.Calls("renew")
				g.keptFor("k")
				assert.InDelta(t, max(time.Second, worked), time.Since(granted), float64(2*time.Millisecond))
				assert.Equal(t, renewals, g.s.Calls("renew"), "nothing is renewed")
			})
		})
	}
}

// A hold that is lost, or under which no work ran, keeps nothing.
func TestMinHold_LostAndUnusedHoldsKeepNothing(t *testing.T) {
	hour := guard.MinHold(time.Hour)
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		require.ErrorIs(t, g.WithLock(t.Context(), k, func(ctx context.Context) error {
			g.s.Drop("k")
			require.NoError(t, other.lock(guard.NoWait()))
			return untilDone(ctx)
		}, hour), guard.ErrLost)
		assert.Zero(t, other.keptFor("k"))

		outer := g.take(guard.MinHold(time.Second))
		held := other.acquire(t.Context(), "taken")
		require.ErrorIs(t, g.WithLocks(outer.Context(), keysOf("k taken"), never(t), guard.NoWait()), guard.ErrBusy)
		g.free(outer)
		assert.NotZero(t, g.keptFor("k"), "it was entered before")
		require.ErrorIs(t, g.WithLocks(t.Context(), keysOf("k taken"), never(t), guard.NoWait(), hour), guard.ErrBusy)
		assert.Zero(t, g.keptFor("k"))
		g.free(held)
	})
}

// An inner call has the MinHold of the outer one, which is the Guard's if it has none of its own.
func TestMinHold_AnInnerCallJoinsTheMinHoldOfTheOuterOne(t *testing.T) {
	nested := func(g *env, outer, inner guard.LockOption) time.Duration {
		require.NoError(g.t, g.WithLock(g.t.Context(), k, func(ctx context.Context) error { return g.WithLock(ctx, k, nothing, inner) }, outer))
		return g.keptFor("k")
	}
	bubble(t, func(t *testing.T, g *env) {
		assert.Zero(t, nested(g, nil, guard.MinHold(time.Hour)))
		assert.InDelta(t, time.Second, nested(g, guard.MinHold(time.Second), nil), float64(10*time.Millisecond))
		byDefault := g.another(guard.MinHold(time.Second))
		assert.InDelta(t, time.Second, nested(byDefault, nil, nil), float64(10*time.Millisecond))
		assert.Zero(t, nested(byDefault, guard.MinHold(0), nil))
	})
}

func TestMinHold_ACallerThatFindsAKeyHeldOver(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.lock(guard.MinHold(time.Hour), guard.Metadata("worker 7")))
		for _, g := range []*env{g, g.another()} {
			for _, kind := range []guard.LockOption{nil, guard.Shared(), guard.Limit(5)} {
				busy := g.busy(kind)
				assert.Equal(t, []any{true, time.Hour, "worker 7"}, []any{busy.HeldOver, busy.RetryAfter, busy.Holder})
			}
		}
		time.Sleep(time.Hour - time.Millisecond)
		assert.Equal(t, time.Second, g.busy().RetryAfter, "a second at the least")
		time.Sleep(time.Millisecond)
		require.NoError(t, g.lock(guard.NoWait(), guard.MinHold(time.Hour)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		busy := as[*guard.BusyError](t, g.WithLock(ctx, k, nothing))
		assert.True(t, busy.HeldOver)
		assert.Equal(t, "deadline_exceeded", busy.ErrorType())
	})
}
