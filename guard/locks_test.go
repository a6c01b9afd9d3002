package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// keysOf makes key functions of words.
func keysOf(words string) (keys []guard.KeyFunc) {
	for key := range strings.FieldsSeq(words) {
		keys = append(keys, guard.Key(key))
	}
	return keys
}

// manyKeys gives n different keys.
func manyKeys(n int) (keys []guard.KeyFunc) {
	for i := range n {
		keys = append(keys, guard.Key(fmt.Sprintf("key:%03d", i)))
	}
	return keys
}

// sequence gives the keys of what a Recorder saw of a method, in order.
func sequence(r *guardtest.Recorder, method string) string {
	var keys []string
	for _, o := range r.Observations(method) {
		keys = append(keys, o.Lock.Key)
	}
	return strings.Join(keys, " ")
}

// noneHeld says that nobody holds any of the keys.
func noneHeld(t *testing.T, s *guardtest.Store, keys string) {
	t.Helper()
	for key := range strings.FieldsSeq(keys) {
		assert.Equal(t, 0, s.Depth(key), "key %s", key)
		assert.Empty(t, s.Queue(key), "key %s", key)
	}
}

func TestLocks_AreTakenInOrderAndGivenBackInReverse(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		boom := errors.New("boom")
		err := g.WithLocks(t.Context(), keysOf("c B a é a"), func(ctx context.Context) error {
			for _, key := range []string{"B", "a", "c", "é"} {
				l, ok := guard.Held(ctx, key)
				require.True(t, ok, key)
				assert.Equal(t, "transfer", l.Name())
				assert.Equal(t, 1, s.Depth(key))
			}
			last, _ := guard.Held(ctx, "é")
			fence, _ := guard.Fence(ctx)
			assert.Equal(t, last.Fence(), fence, "of the last one that was taken")
			return boom
		}, guard.Name("transfer"))
		assert.Same(t, boom, err)
		assert.Equal(t, "B a c é", sequence(r, "HoldStart"), "by their bytes, each once")
		assert.Equal(t, "é c a B", sequence(r, "HoldEnd"))
		noneHeld(t, s, "B a c é")
		require.NoError(t, g.WithLocks(t.Context(), keysOf("one"), testenv.Nothing))
	})
}

func TestLocks_WhatIsNoRequestForLocks(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		var noContext context.Context
		boom := errors.New("boom")
		failing := func(context.Context) (string, error) { return "", boom }
		ok := keysOf("a b")
		for name, row := range map[string]struct {
			ctx   context.Context
			keys  []guard.KeyFunc
			opts  []guard.LockOption
			is    error
			names string
		}{
			"no keys":            {t.Context(), nil, nil, guard.ErrOption, "keys is empty: give 1 to 64"},
			"too many":           {t.Context(), manyKeys(65), nil, guard.ErrOption, "keys has 65 different keys, the most is 64"},
			"nil key function":   {t.Context(), []guard.KeyFunc{guard.Key("a"), nil}, nil, guard.ErrKey, "no key function at index 1"},
			"failed function":    {t.Context(), append(keysOf("a"), failing), nil, boom, "boom"},
			"empty key":          {t.Context(), append(keysOf("a"), guard.Key("")), nil, guard.ErrKey, "empty"},
			"nil context":        {noContext, ok, nil, guard.ErrOption, "ctx is nil"},
			"bad option":         {t.Context(), ok, []guard.LockOption{guard.TTL(1)}, guard.ErrOption, "TTL"},
			"bad metadata":       {t.Context(), ok, []guard.LockOption{guard.MetadataFunc(func(context.Context) string { return "\xff" })}, guard.ErrOption, "MetadataFunc"},
			"context that ended": {canceled(t.Context()), ok, nil, context.Canceled, "canceled"},
		} {
			err := g.WithLocks(row.ctx, row.keys, func(context.Context) error { t.Error("ran"); return nil }, row.opts...)
			require.ErrorIs(t, err, row.is, name)
			require.ErrorContains(t, err, row.names, name)
			ls, err := g.AcquireAll(row.ctx, row.keys, row.opts...)
			require.ErrorIs(t, err, row.is, name)
			assert.Nil(t, ls, name)
		}
		require.ErrorContains(t, g.WithLocks(t.Context(), ok, nil), "fn is nil")
		_, err := g.AcquireAll(t.Context(), ok, guard.FailOpen())
		require.ErrorContains(t, err, "FailOpen does not go with AcquireAll")
		_, err = g.AcquireAll(t.Context(), ok, guard.TTL(1))
		require.ErrorIs(t, err, guard.ErrOption)
		assert.Zero(t, s.Calls("Acquire"), "nothing was sent")

		twice := append(manyKeys(64), manyKeys(64)...)
		require.NoError(t, g.WithLocks(t.Context(), twice, testenv.Nothing), "64 different ones")
		require.ErrorIs(t, (*guard.Guard)(nil).WithLocks(t.Context(), ok, testenv.Nothing), guard.ErrNoGuard)
		require.ErrorIs(t, guard.WithLocks(t.Context(), ok, testenv.Nothing), guard.ErrNoGuard)
		require.NoError(t, guard.WithLocks(guard.WithGuard(t.Context(), g), ok, testenv.Nothing))
	})
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func TestLocks_KeysThatAreHeldComeFirst(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		calls := 0
		counted := guard.MetadataFunc(func(context.Context) string { calls++; return "" })
		err := g.WithLock(t.Context(), guard.Key("z"), func(ctx context.Context) error {
			require.NoError(t, g.WithLocks(ctx, keysOf("a z m"), func(ctx context.Context) error {
				assert.Equal(t, 2, s.Depth("z"))
				assert.Equal(t, 1, s.Depth("a"))
				innermost, _ := guard.FromContext(ctx)
				assert.Equal(t, "m", innermost.Key())
				return nil
			}, counted, guard.MaxHold(time.Second)))
			assert.Equal(t, 1, calls, "once for all keys")
			time.Sleep(2 * time.Second)
			require.NoError(t, ctx.Err(), "the cap is not for a key that was held before")
			require.NoError(t, g.WithLocks(ctx, keysOf("z"), testenv.Nothing, counted))
			assert.Equal(t, 1, calls, "nothing was claimed")
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "z z a m z", sequence(r, "HoldStart"))
		noneHeld(t, s, "a m z")
	})
}

func TestLocks_OneBudgetForAllKeys(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		first, err := g.Acquire(t.Context(), guard.Key("a"))
		require.NoError(t, err)
		_, err = g.Acquire(t.Context(), guard.Key("b"), guard.Metadata("payroll"))
		require.NoError(t, err)
		time.AfterFunc(700*time.Millisecond, func() { _ = first.Release(t.Context()) })

		start := time.Now()
		err = g.WithLocks(t.Context(), keysOf("a b c"), func(context.Context) error { t.Error("ran"); return nil },
			guard.Wait(time.Second))
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "b", busy.Key)
		assert.Equal(t, "payroll", busy.Holder)
		assert.Equal(t, "lock_wait_timeout", busy.ErrorType())
		assert.InDelta(t, time.Second, time.Since(start), float64(5*time.Millisecond), "not a second for each")
		assert.InDelta(t, time.Second, busy.Waited, float64(5*time.Millisecond))
		noneHeld(t, s, "a c")
	})
}

// A budget that is used up still has each key that is left tried once.
func TestLocks_AUsedUpBudgetTriesTheRestOnce(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		slow := func(context.Context) (string, error) { return "b", nil }
		first, err := g.Acquire(t.Context(), guard.Key("a"))
		require.NoError(t, err)
		time.AfterFunc(500*time.Millisecond, func() {
			time.Sleep(499 * time.Millisecond)
			_ = first.Release(t.Context())
		})
		require.NoError(t, g.WithLocks(t.Context(), append(keysOf("a c d"), slow), testenv.Nothing, guard.Wait(time.Second)))
		noneHeld(t, s, "a b c d")
	})
}

func TestLocks_NoWaitTriesEachOnce(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		_, err := g.Acquire(t.Context(), guard.Key("c"))
		require.NoError(t, err)
		start := time.Now()
		_, err = g.AcquireAll(t.Context(), keysOf("d c b a"), guard.NoWait())
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "c", busy.Key)
		assert.Equal(t, "lock_busy", busy.ErrorType())
		assert.Zero(t, time.Since(start))
		noneHeld(t, s, "a b d")
		assert.Equal(t, "b a", sequence(r, "HoldEnd"), "in reverse")
	})
}

func TestLocks_TheCapOfAllBeginsWithTheWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		first, err := g.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, func() { _ = first.Release(t.Context()) })
		var started time.Time
		err = g.WithLocks(t.Context(), keysOf("a b"), func(ctx context.Context) error {
			started = time.Now()
			<-ctx.Done()
			assert.Equal(t, 2*time.Second, time.Since(started))
			require.ErrorIs(t, context.Cause(ctx), guard.ErrMaxHold)
			for _, key := range []string{"a", "b"} {
				_, held := guard.Held(ctx, key)
				assert.False(t, held, "%s is over, too", key)
				assert.Equal(t, 1, s.Depth(key), "%s stays taken until the work returns", key)
			}
			return nil
		}, guard.MaxHold(2*time.Second))
		require.ErrorIs(t, err, guard.ErrMaxHold)
		noneHeld(t, s, "a b")
		assert.ElementsMatch(t, []string{"a", "b"}, lostKeys(err), "joined")
	})
}

// lostKeys are those of the LostErrors that err joins.
func lostKeys(err error) (keys []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			keys = append(keys, lostKeys(err)...)
		}
		return keys
	}
	var lost *guard.LostError
	if errors.As(err, &lost) {
		keys = append(keys, lost.Key)
	}
	return keys
}

func TestLocks_AFixedLeaseEndsThoughTheWorkHasNotBegun(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		_, err := g.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		err = g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { t.Error("ran"); return nil },
			guard.FixedLease(), guard.TTL(time.Second))
		var lost *guard.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, "a", lost.Key)
		require.ErrorIs(t, err, guard.ErrMaxHold)
		noneHeld(t, s, "a")

		err = g.WithLocks(t.Context(), keysOf("c d"), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, guard.FixedLease(), guard.TTL(time.Second))
		require.ErrorIs(t, err, guard.ErrMaxHold)
		noneHeld(t, s, "c d")
	})
}

func TestLocks_FailOpenOnlyAfterAllIsGivenBack(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		other, err := guard.NewWithStore(s)
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		first, err := other.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { s.Fail(errors.New("down")) })
		ran := false
		err = g.WithLocks(t.Context(), keysOf("a b"), func(ctx context.Context) error {
			ran = true
			_, held := guard.Held(ctx, "a")
			assert.False(t, held)
			assert.Equal(t, "a", sequence(r, "HoldEnd"), "given back before")
			return nil
		}, guard.FailOpen())
		require.NoError(t, err)
		assert.True(t, ran)
		opened := r.Events(guard.FailedOpen)
		require.Len(t, opened, 1)
		require.ErrorIs(t, opened[0].Err, guard.ErrStore)
		s.Fail(nil)
		_ = first.Release(t.Context())
		time.Sleep(time.Second)
		noneHeld(t, s, "a b")

		// A busy lock opens nothing.
		_, err = g.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		err = g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { t.Error("ran"); return nil },
			guard.FailOpen(), guard.NoWait())
		require.ErrorIs(t, err, guard.ErrBusy)
	})
}

func TestLocks_TheLossOfAnyEndsTheWork(t *testing.T) {
	for _, key := range []string{"a", "b", "c"} {
		testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
			boom := errors.New("boom")
			err := g.WithLocks(t.Context(), keysOf("a b c"), func(ctx context.Context) error {
				s.Drop(key)
				<-ctx.Done()
				var lost *guard.LostError
				require.ErrorAs(t, context.Cause(ctx), &lost)
				assert.Equal(t, key, lost.Key)
				return boom
			})
			require.ErrorIs(t, err, boom)
			assert.Equal(t, []string{key}, lostKeys(err))
			noneHeld(t, s, "a b c")
			synctest.Wait() // the watchdog tells the observers last
			assert.Len(t, r.Observations("HoldEnd"), 3)

			err = g.WithLocks(t.Context(), keysOf("a b c"), func(ctx context.Context) error {
				s.Drop(key)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			_, bare := err.(*guard.LostError) //nolint:errorlint // alone
			assert.True(t, bare, "told once: %T", err)
		})
	}
}

func TestLocks_AreGivenBackAfterAPanicAndGoexit(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		func() {
			defer func() { assert.Equal(t, "boom", recover()) }()
			_ = g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { panic("boom") })
		}()
		noneHeld(t, s, "a b")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = g.WithLocks(t.Context(), keysOf("a b"), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		noneHeld(t, s, "a b")
	})
}

func TestLocks_Leases(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		outer, err := g.Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		ls, err := g.AcquireAll(outer.Context(), keysOf("c b a"), guard.Name("n"))
		require.NoError(t, err)
		require.NoError(t, ls.Err())
		var keys []string
		for _, l := range ls.All() {
			keys = append(keys, l.Key())
			one, ok := ls.Lease(l.Key())
			assert.True(t, ok)
			assert.Same(t, l, one)
			held, ok := guard.Held(ls.Context(), l.Key())
			assert.True(t, ok)
			assert.Same(t, l, held)
		}
		assert.Equal(t, []string{"a", "b", "c"}, keys)
		ls.All()[0] = nil
		assert.NotNil(t, ls.All()[0], "a slice of its own")
		_, ok := ls.Lease("d")
		assert.False(t, ok)

		require.NoError(t, ls.Release(t.Context()))
		require.NoError(t, ls.Release(t.Context()))
		require.ErrorIs(t, ls.Err(), guard.ErrReleased)
		require.ErrorIs(t, context.Cause(ls.Context()), guard.ErrReleased)
		assert.Equal(t, 1, s.Depth("b"), "was re-entered")
		require.NoError(t, outer.Err())
		noneHeld(t, s, "a c")
		require.NoError(t, outer.Release(t.Context()))
	})
}

func TestLocks_LeasesTellWhichWereLost(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		ls, err := g.AcquireAll(t.Context(), keysOf("a b c"), guard.TTL(time.Second))
		require.NoError(t, err)
		s.Drop("a")
		s.Drop("c")
		<-ls.Context().Done()
		synctest.Wait()
		require.ErrorIs(t, ls.Err(), guard.ErrLost)
		err = ls.Release(t.Context())
		assert.ElementsMatch(t, []string{"a", "c"}, lostKeys(err))
		assert.Equal(t, err, ls.Release(t.Context()))
		require.NotErrorIs(t, ls.Err(), guard.ErrReleased, "the loss comes first")
		noneHeld(t, s, "a b c")

		// One that was released by itself.
		ls, err = g.AcquireAll(t.Context(), keysOf("a b c"))
		require.NoError(t, err)
		one, _ := ls.Lease("b")
		require.NoError(t, one.Release(t.Context()))
		require.ErrorIs(t, ls.Err(), guard.ErrReleased)
		require.ErrorIs(t, context.Cause(ls.Context()), guard.ErrReleased)
		require.NoError(t, ls.Release(nil)) //nolint:staticcheck // a nil context bounds nothing
		noneHeld(t, s, "a b c")
	})
}
