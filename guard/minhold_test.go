package guard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

func TestMinHold_KeepsTheKeyWhateverCameOfTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		work func(context.Context) error
		opts []guard.LockOption
		kept time.Duration // since the grant
	}{
		"done":    {work: nothing},
		"panic":   {work: func(context.Context) error { panic("boom") }},
		"Goexit":  {work: func(context.Context) error { runtime.Goexit(); return nil }},
		"longer":  {work: func(context.Context) error { time.Sleep(time.Minute); return nil }, kept: time.Minute},
		"acquire": {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				granted, opts := time.Now(), append(c.opts, guard.MinHold(time.Second))
				if c.work == nil {
					g.free(g.take(opts...))
				} else {
					apart(func() { _ = g.WithLock(t.Context(), k, c.work, opts...) })
				}
				returned := time.Since(granted)
				assert.LessOrEqual(t, returned, max(300*time.Millisecond, c.kept), "no caller waits for the rest")
				renewals := g.s.Calls("renew")
				g.keptFor("k")
				assert.InDelta(t, max(time.Second, c.kept), time.Since(granted), float64(2*time.Millisecond))
				assert.Equal(t, renewals, g.s.Calls("renew"), "nothing is renewed")
			})
		})
	}
}

func TestMinHold_ACallerThatFindsAKeyHeldOver(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.lock(guard.MinHold(time.Hour), guard.Metadata("worker 7")))
		other := g.another()
		for _, g := range []*env{g, other} {
			busy := g.busy(guard.Name("n"))
			assert.True(t, busy.HeldOver)
			assert.Equal(t, "lock_held_over", busy.ErrorType())
			assert.Equal(t, `guard: lock "n" is kept after its work: its MinHold has not passed`, busy.Error())
			assert.Equal(t, time.Hour, busy.RetryAfter, "the rest")
			assert.Equal(t, "worker 7", busy.Holder)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		busy := as[*guard.BusyError](t, g.WithLock(ctx, k, nothing))
		assert.True(t, busy.HeldOver)
		assert.Equal(t, "deadline_exceeded", busy.ErrorType())
		for _, kind := range []guard.LockOption{guard.Shared(), guard.Limit(5)} {
			for _, g := range []*env{g, other} {
				assert.True(t, g.busy(kind).HeldOver)
				assert.True(t, g.busy(kind, guard.Wait(time.Second)).HeldOver)
			}
		}
	})
}

// A hold that ends by a crash, or is lost, or under which no work ran, keeps nothing.
func TestMinHold_LostAndUnusedHoldsKeepNothing(t *testing.T) {
	hour := guard.MinHold(time.Hour)
	bubble(t, func(t *testing.T, g *env) {
		g.s.trouble(func(_ context.Context, op, _ string) error {
			if op == "release" {
				return &guardstore.RefusedError{Err: errors.New("down")}
			}
			return nil
		}, nil)
		_ = g.another().lock(guard.TTL(5*time.Second), hour)
		time.Sleep(5 * time.Second)
		g.s.trouble(nil, nil)
		assert.Zero(t, g.keptFor("k"))

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

// MinHold counts from the grant of its own call: the lock is not handed over.
func TestMinHold_CountsFromTheGrantOfItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take()
		next := g.later(guard.MinHold(10 * time.Second))
		time.Sleep(5 * time.Second)
		g.free(l)
		g.free(<-next)
		assert.InDelta(t, 10*time.Second, g.keptFor("k"), float64(100*time.Millisecond))
	}, guard.HandoverWindow(time.Minute))
}

// A caller that waits for longer than MinHold, and finds another caller at work then, does not hear of the earlier work.
func TestMinHold_ThatPassesWhileACallerWaits(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.another().lock(guard.MinHold(time.Second)))
		next := g.another().later()
		waits := begin(func() error { return g.lock(guard.Wait(5 * time.Second)) })
		l := <-next
		busy := as[*guard.BusyError](t, <-waits)
		assert.False(t, busy.HeldOver)
		assert.GreaterOrEqual(t, busy.RetryAfter, time.Second)
		g.free(l)
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
