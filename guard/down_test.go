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
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The tests in this file are about what callers are told while Redis does not answer.

var errDown = errors.New("down")

// several has n callers want a key at once, and gives what each was told and when.
func several(t *testing.T, g *guard.Guard, n int, opts ...guard.LockOption) (errs []error, took []time.Duration) {
	t.Helper()
	errs, took = make([]error, n), make([]time.Duration, n)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			begun := time.Now()
			errs[i] = g.WithLock(t.Context(), testenv.Order, testenv.Nothing, opts...)
			took[i] = time.Since(begun)
		})
	}
	callers.Wait()
	return errs, took
}

var waits = map[string]guard.LockOption{
	"NoWait": guard.NoWait(), "Wait 500ms": guard.Wait(500 * time.Millisecond), "Wait 1m": guard.Wait(time.Minute),
}

// Nobody said that the lock is busy.
func TestDown_RedisDownIsNotBusy(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
				s.Fail(errDown)
				errs, took := several(t, g, 10, wait)
				for i, err := range errs {
					require.ErrorIs(t, err, guard.ErrStore)
					require.NotErrorIs(t, err, guard.ErrBusy)
					assert.LessOrEqual(t, took[i], 2*guard.DefaultStoreTimeout)
				}
				errs, took = several(t, g, 10, wait, guard.FailOpen())
				for i, err := range errs {
					require.NoError(t, err)
					assert.Equal(t, guard.DefaultStoreTimeout, took[i])
				}
				assert.Len(t, r.Events(guard.FailedOpen), 10)
			})
		})
	}
}

// Somebody said so, and nobody says it any more: neither the first of a process, who asks
// for the others, nor those behind it learned anything since.
func TestDown_WhoWaitsWhenRedisDiesIsNotToldBusy(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[1].Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		time.AfterFunc(100*time.Millisecond, func() { s.Fail(errDown) })
		errs, took := several(t, gs[0], 5, guard.Wait(500*time.Millisecond))
		for i, err := range errs {
			require.ErrorIs(t, err, guard.ErrStore)
			assert.LessOrEqual(t, took[i], 500*time.Millisecond+guard.DefaultStoreTimeout)
		}
		s.Fail(nil)
		waiting := make(chan error, 1)
		go func() { waiting <- gs[0].WithLock(t.Context(), testenv.Order, testenv.Nothing) }()
		synctest.Wait()
		s.Fail(errDown)
		time.Sleep(freshWord + time.Millisecond)
		require.ErrorIs(t, gs[0].WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait()), guard.ErrStore)
		require.ErrorIs(t, <-waiting, guard.ErrStore)
		s.Fail(nil)
		require.NoError(t, l.Release(t.Context()))
	})
}

// freshWord is for how long a word is believed.
const freshWord = 100 * time.Millisecond

// While one's own process holds the lock, nobody need say so.
func TestDown_BehindOnesOwnHolderItIsBusyWhoeverAnswers(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order, guard.Metadata("me"))
		require.NoError(t, err)
		s.Fail(errDown)
		for _, wait := range []guard.LockOption{guard.NoWait(), guard.Wait(time.Second)} {
			errs, _ := several(t, g, 5, wait, guard.FailOpen())
			for _, err := range errs {
				var busy *guard.BusyError
				require.ErrorAs(t, err, &busy)
				assert.Equal(t, "me", busy.Holder)
			}
		}
		s.Fail(nil)
		require.NoError(t, l.Release(t.Context()))
	})
}

// Where Redis answers, a wait that is over costs one question, however many give up at a
// time, and takes no longer.
func TestDown_GivingUpAsksOnceMore(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
		l, err := gs[1].Acquire(t.Context(), testenv.Order, guard.Metadata("the other"))
		require.NoError(t, err)
		errs, took := several(t, gs[0], 20, guard.Wait(500*time.Millisecond))
		for i, err := range errs {
			var busy *guard.BusyError
			require.ErrorAs(t, err, &busy)
			assert.Equal(t, "the other", busy.Holder)
			assert.Equal(t, 500*time.Millisecond, took[i])
		}
		assert.LessOrEqual(t, s.Calls("acquire"), 4)
		require.NoError(t, l.Release(t.Context()))
	})
}

// A call with FailOpen finds out that nobody answers. Those after it open at once, whatever
// they lock, until somebody does.
func TestDown_FailOpenRemembersAnOutage(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		opens := func(key string) (time.Duration, bool) {
			begun, held := time.Now(), false
			require.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
				_, held = guard.Held(ctx, key)
				return nil
			}, guard.FailOpen()))
			return time.Since(begun), !held
		}
		s.Fail(errDown)
		took, open := opens("first")
		assert.Equal(t, guard.DefaultStoreTimeout, took)
		assert.True(t, open)
		waited := 0
		for range 40 { // longer than it is remembered
			time.Sleep(time.Second)
			took, open = opens("another")
			assert.True(t, open)
			if took > 0 {
				waited++
			}
		}
		assert.LessOrEqual(t, waited, 2, "calls that had to find out")
		failed := r.Events(guard.FailedOpen)
		require.Len(t, failed, 41)
		require.ErrorIs(t, failed[1].Err, errDown)

		begun := time.Now()
		require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing), guard.ErrStore)
		assert.Equal(t, guard.DefaultStoreTimeout, time.Since(begun), "who does not open asks")

		s.Fail(nil)
		time.Sleep(time.Second)
		took, open = opens("first")
		assert.Zero(t, took)
		assert.False(t, open, "there is an answer")
	})
}

// A refusal is an answer: another key may be had.
func TestDown_FailOpenDoesNotRememberARefusal(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		s.Fail(&guardstore.RefusedError{Err: errDown})
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.FailOpen()))
		s.Fail(nil)
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			_, held := guard.Held(ctx, "order:42")
			assert.True(t, held)
			return nil
		}, guard.FailOpen()))
	})
}

// Work that is done waits for a release that cannot be had for a quarter of a second; that of
// a lost hold, on which nothing depends, for less. On real connections, where the caller
// itself sends the command.
func TestDown_FinishedWorkDoesNotWaitForRedis(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		most  time.Duration
		end   func(ctx context.Context, r *testenv.Env) error
		error error
	}{
		"held":   {250 * time.Millisecond, func(context.Context, *testenv.Env) error { return nil }, nil},
		"nested": {500 * time.Millisecond, nil, nil},
		"lost": {50 * time.Millisecond, func(ctx context.Context, r *testenv.Env) error {
			<-ctx.Done()
			return nil
		}, guard.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testenv.New(t, redistest.Shared(t), guard.StoreTimeout(10*time.Second), guard.TTL(time.Second))
			defer r.Proxy.Thaw()
			var begun time.Time
			var late func() time.Duration
			err := r.WithLock(t.Context(), guard.Key(t.Name()), func(ctx context.Context) error {
				work := func(ctx context.Context) (err error) {
					r.Proxy.Freeze()
					if want.end != nil {
						err = want.end(ctx, r)
					}
					late, begun = testenv.Lateness(), time.Now()
					return err
				}
				if want.end == nil {
					return r.WithLock(ctx, guard.Key(t.Name()), work)
				}
				return work(ctx)
			})
			took, machine := time.Since(begun), late()
			if want.error != nil {
				require.ErrorIs(t, err, want.error)
			} else {
				require.NoError(t, err)
			}
			assert.Less(t, took, want.most+max(2*machine, want.most))
		})
	}
}
