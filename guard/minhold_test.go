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

func quick(context.Context) error { return nil }

// takenFor is how long it takes until the key is free.
func takenFor(t *testing.T, g *guard.Guard) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		err := g.WithLock(context.Background(), testenv.Order, quick, guard.NoWait())
		if err == nil {
			return time.Since(begun)
		}
		require.ErrorIs(t, err, guard.ErrBusy)
		time.Sleep(time.Millisecond)
	}
}

func TestMinHold_KeepsTheKeyWhateverCameOfTheWork(t *testing.T) {
	boom := errors.New("boom")
	for name, work := range map[string]func(context.Context) error{
		"done":    quick,
		"failed":  func(context.Context) error { return boom },
		"panic":   func(context.Context) error { panic("boom") },
		"Goexit":  func(context.Context) error { runtime.Goexit(); return nil },
		"a while": func(context.Context) error { time.Sleep(300 * time.Millisecond); return nil },
		"acquire": nil,
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
				granted := time.Now()
				var returned time.Duration
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() {
						_ = recover()
						returned = time.Since(granted)
					}()
					if work != nil {
						_ = g.WithLock(t.Context(), testenv.Order, work, guard.MinHold(time.Second))
						return
					}
					l, err := g.Acquire(t.Context(), testenv.Order, guard.MinHold(time.Second))
					require.NoError(t, err)
					require.NoError(t, l.Release(t.Context()))
				})
				wg.Wait()
				assert.LessOrEqual(t, returned, 300*time.Millisecond, "nobody waits for the rest")
				renewals := s.Calls("renew")
				left := time.Second - returned
				assert.InDelta(t, left, takenFor(t, g), float64(2*time.Millisecond))
				assert.Equal(t, renewals, s.Calls("renew"), "nothing is renewed")
			})
		})
	}
}

func TestMinHold_IsNoMoreThanALockForLongerWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}, guard.MinHold(10*time.Second)))
		require.Zero(t, takenFor(t, g))
	})
}

func TestMinHold_WhoFindsAKeyHeldOverIsToldSo(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, quick, guard.MinHold(time.Hour), guard.Metadata("worker 7")))
		var busy *guard.BusyError
		for _, other := range []*guard.Guard{g, mustGuard(t, s)} {
			err := other.WithLock(t.Context(), testenv.Order, quick, guard.NoWait(), guard.Name("n"))
			require.ErrorAs(t, err, &busy)
			assert.True(t, busy.Done)
			assert.Equal(t, "lock_held_over", busy.ErrorType())
			assert.Equal(t, `guard: lock "n" is kept after its work: its MinHold is not over`, busy.Error())
			assert.Equal(t, time.Hour, busy.RetryAfter, "what is left")
			assert.Equal(t, "worker 7", busy.Holder)
		}
		begun := time.Now()
		require.ErrorAs(t, g.WithLock(t.Context(), testenv.Order, quick, guard.Wait(3*time.Second)), &busy)
		assert.Equal(t, "lock_held_over", busy.ErrorType())
		assert.Equal(t, 3*time.Second, time.Since(begun))
		assert.Equal(t, time.Hour-3*time.Second, busy.RetryAfter.Round(time.Second))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorAs(t, g.WithLock(ctx, testenv.Order, quick), &busy)
		assert.True(t, busy.Done)
		assert.Equal(t, "deadline_exceeded", busy.ErrorType())
		waits := r.Observations("WaitEnd")
		assert.Equal(t, guard.OutcomeTimeout, waits[len(waits)-2].Wait.Outcome)
	})
}

func TestMinHold_SharedAndLimitCallersFindAKeyHeldOver(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, quick, guard.MinHold(time.Hour)))
		for _, kind := range []guard.LockOption{guard.Shared(), guard.Limit(5)} {
			for _, other := range []*guard.Guard{g, mustGuard(t, s)} {
				for _, wait := range []guard.LockOption{guard.NoWait(), guard.Wait(time.Second)} {
					var busy *guard.BusyError
					require.ErrorAs(t, other.WithLock(t.Context(), testenv.Order, quick, kind, wait), &busy)
					assert.True(t, busy.Done)
					assert.Equal(t, "lock_held_over", busy.ErrorType())
				}
			}
		}
	})
}

// The line of one process knows it, too.
func TestMinHold_WhoDoesNotWaitBehindALineIsTold(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error {
			wg.Go(func() { _ = g.WithLock(ctx, testenv.Order, quick) })
			synctest.Wait()
			var busy *guard.BusyError
			require.ErrorAs(t, g.WithLock(t.Context(), testenv.Order, quick, guard.NoWait()), &busy)
			assert.False(t, busy.Done, "it is at work")
			return nil
		}, guard.MinHold(time.Minute)))
		synctest.Wait()
		var busy *guard.BusyError
		require.ErrorAs(t, g.WithLock(t.Context(), testenv.Order, quick, guard.NoWait()), &busy)
		assert.True(t, busy.Done)
		assert.Equal(t, time.Minute, busy.RetryAfter)
		cancel()
		wg.Wait()
	})
}

// Those who wait elsewhere get it in order, without asking more than behind a holder.
func TestMinHold_WhoWaitsGetsAKeyWhenItsMinHoldIsOver(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		granted := time.Now()
		var got []int
		var first time.Duration
		var wg sync.WaitGroup
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error {
			for i := range 5 {
				other := mustGuard(t, s)
				wg.Go(func() {
					assert.NoError(t, other.WithLock(context.Background(), testenv.Order, func(context.Context) error {
						if len(got) == 0 {
							first = time.Since(granted)
						}
						got = append(got, i)
						return nil
					}))
				})
				synctest.Wait()
			}
			return nil
		}, guard.MinHold(time.Minute)))
		asked := s.Calls("acquire")
		time.Sleep(50 * time.Second)
		assert.Less(t, s.Calls("acquire")-asked, 50*2*5/4+50*3/3+5, "two ask each second, the others less")
		wg.Wait()
		assert.Equal(t, []int{0, 1, 2, 3, 4}, got)
		assert.GreaterOrEqual(t, first, time.Minute)
		assert.Less(t, first, time.Minute+time.Second)
	})
}

func TestMinHold_ACrashUnderMinHoldFreesAfterTheTTL(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		crashes, err := guard.NewWithStore(&deadEnd{Store: s})
		require.NoError(t, err)
		defer crashes.Close()
		_ = crashes.WithLock(t.Context(), testenv.Order, quick, guard.TTL(5*time.Second), guard.MinHold(time.Hour))
		assert.InDelta(t, 5*time.Second, takenFor(t, g), float64(2*time.Second))
	})
}

// deadEnd loses every release.
type deadEnd struct{ *guardtest.Store }

func (*deadEnd) Release(context.Context, guardstore.Release) (guardstore.ReleaseReply, error) {
	return guardstore.ReleaseReply{}, &guardstore.RefusedError{Err: errors.New("down")}
}

// A hold that is lost keeps nothing from its successor, nor for itself.
func TestMinHold_ALostHoldKeepsNothing(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		other := mustGuard(t, s)
		err := g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			s.Drop("order:42")
			require.NoError(t, other.WithLock(t.Context(), testenv.Order, quick, guard.NoWait()))
			<-ctx.Done()
			return nil
		}, guard.MinHold(time.Hour))
		require.ErrorIs(t, err, guard.ErrLost)
		require.Zero(t, takenFor(t, other))
	})
}

func TestMinHold_FixedLeaseIsTakenUntilItsMinHold(t *testing.T) {
	for _, work := range []time.Duration{time.Millisecond, 980 * time.Millisecond} { // the second one uses the lease up
		testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
			granted := time.Now()
			_ = g.WithLock(t.Context(), testenv.Order, func(context.Context) error {
				time.Sleep(work)
				return nil
			}, guard.FixedLease(), guard.TTL(time.Second), guard.MinHold(5*time.Second))
			takenFor(t, g)
			assert.InDelta(t, 5*time.Second, time.Since(granted), float64(10*time.Millisecond), "%v", work)
		})
	}
}

func TestMinHold_AnInnerCallJoinsTheMinHoldOfTheOuterOne(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			return g.WithLock(ctx, testenv.Order, quick, guard.MinHold(time.Hour))
		}))
		require.Zero(t, takenFor(t, g))
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			return g.WithLock(ctx, testenv.Order, quick)
		}, guard.MinHold(time.Second)))
		require.InDelta(t, time.Second, takenFor(t, g), float64(10*time.Millisecond))
	})
}

// Where no work ran, nothing is kept.
func TestMinHold_ALockThatNobodyUsedIsNotKept(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		held, err := mustGuard(t, s).Acquire(t.Context(), guard.Key("order:43"))
		require.NoError(t, err)
		err = g.WithLocks(t.Context(), []guard.KeyFunc{testenv.Order, guard.Key("order:43")}, quick, guard.NoWait(), guard.MinHold(time.Hour))
		require.ErrorIs(t, err, guard.ErrBusy)
		require.Zero(t, takenFor(t, g))
		require.NoError(t, held.Release(t.Context()))

		require.NoError(t, g.WithLocks(t.Context(), []guard.KeyFunc{testenv.Order, guard.Key("order:43")}, quick, guard.MinHold(time.Second)))
		require.InDelta(t, time.Second, takenFor(t, g), float64(10*time.Millisecond))
	})
}

func TestMinHold_OfAGuardIsTheDefaultOfItsCalls(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, quick))
		require.InDelta(t, time.Second, takenForWith(t, g, guard.MinHold(0)), float64(10*time.Millisecond))
		require.Zero(t, takenForWith(t, g, guard.MinHold(0)))
	}, guard.MinHold(time.Second))
}

func takenForWith(t *testing.T, g *guard.Guard, opts ...guard.LockOption) time.Duration {
	t.Helper()
	begun := time.Now()
	for g.WithLock(context.Background(), testenv.Order, quick, append(opts, guard.NoWait())...) != nil {
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

func TestMinHold_HasItsBounds(t *testing.T) {
	for _, row := range []struct {
		opts []guard.LockOption
		want string
	}{
		{[]guard.LockOption{guard.MinHold(-1)}, "guard: MinHold -1ns is outside 0s to 24h0m0s"},
		{[]guard.LockOption{guard.MinHold(24*time.Hour + 1)}, "guard: MinHold 24h0m0.000000001s is outside 0s to 24h0m0s"},
		{[]guard.LockOption{guard.MinHold(2 * time.Second), guard.MaxHold(time.Second)}, "guard: MinHold 2s is longer than MaxHold, 1s"},
		{[]guard.LockOption{guard.MaxHold(time.Second), guard.MinHold(2 * time.Second)}, "guard: MinHold 2s is longer than MaxHold, 1s"},
		{[]guard.LockOption{guard.MinHold(24 * time.Hour)}, ""},
		{[]guard.LockOption{guard.MinHold(time.Second), guard.MaxHold(time.Second)}, ""},
		{[]guard.LockOption{guard.MaxHold(time.Second), guard.MinHold(2 * time.Second), guard.MaxHold(time.Minute)}, ""},
		{[]guard.LockOption{guard.MinHold(time.Second), guard.MaxHold(0)}, ""},
	} {
		err := guard.CheckOptions(row.opts...)
		all := make([]guard.Option, len(row.opts))
		for i, opt := range row.opts {
			all[i] = opt
		}
		g, errNew := guard.NewWithStore(guardtest.NewStore(), all...)
		if row.want == "" {
			require.NoError(t, err)
			require.NoError(t, errNew)
			require.NoError(t, g.Close())
			continue
		}
		require.EqualError(t, err, row.want)
		require.EqualError(t, errNew, row.want)
		require.ErrorIs(t, err, guard.ErrOption)
	}
	g, err := guard.NewWithStore(guardtest.NewStore(), guard.MaxHold(time.Second))
	require.NoError(t, err)
	defer g.Close()
	require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, quick, guard.MinHold(time.Minute)), guard.ErrOption, "the Guard's MaxHold counts")
}

// mustGuard is another instance on the same store.
func mustGuard(t *testing.T, s *guardtest.Store) *guard.Guard {
	t.Helper()
	g, err := guard.NewWithStore(s)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	return g
}
