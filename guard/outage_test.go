package guard_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

var errRefused = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// several has n callers want k at once, and gives the error of each, and when it came.
func (g *rig) several(n int, opts ...guard.LockOption) (errs []error, took []time.Duration) {
	errs, took = make([]error, n), make([]time.Duration, n)
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			begun := time.Now()
			errs[i] = g.lock(opts...)
			took[i] = time.Since(begun)
		})
	}
	callers.Wait()
	return errs, took
}

// Redis down is never called busy: nobody said that the lock is.
func TestOutage_RedisDownIsNotBusy(t *testing.T) {
	for _, wait := range []guard.LockOption{guard.NoWait(), guard.Wait(500 * time.Millisecond), guard.Wait(time.Minute)} {
		bubble(t, func(t *testing.T, g *rig) {
			g.s.Fail(errDown)
			begun := time.Now()
			failure := as[*guard.StoreError](t, g.WithLock(t.Context(), k, never(t), wait))
			is(t, failure, errDown, guard.ErrBusy)
			assert.Equal(t, "acquire", failure.Op)
			assert.Equal(t, "k", failure.Key)
			assert.Equal(t, guard.DefaultStoreTimeout, time.Since(begun))
			errs, took := g.several(10, wait)
			for i, err := range errs {
				is(t, err, guard.ErrStore, guard.ErrBusy)
				assert.LessOrEqual(t, took[i], 2*guard.DefaultStoreTimeout)
			}
			errs, took = g.several(10, wait, guard.FailOpen())
			for i, err := range errs {
				require.NoError(t, err)
				assert.Equal(t, guard.DefaultStoreTimeout, took[i])
			}
			assert.Len(t, g.r.Events(guard.FailedOpen), 10)
			_, err := g.Acquire(t.Context(), k, guard.FailOpen())
			require.ErrorIs(t, err, guard.ErrOption, "there would be no lease")
			g.s.Fail(nil)
			require.NoError(t, g.lock())
		})
	}
}

// Somebody said so, and nobody says it any more: neither the caller that asks for the others of its process, nor those
// after it learned anything since.
func TestOutage_ThoseWhoWaitWhenRedisDiesAreNotBusy(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		const believed = 100 * time.Millisecond
		l := g.another().take()
		time.AfterFunc(100*time.Millisecond, func() { g.s.Fail(errDown) })
		errs, took := g.several(5, guard.Wait(500*time.Millisecond))
		for i, err := range errs {
			require.ErrorIs(t, err, guard.ErrStore)
			assert.LessOrEqual(t, took[i], 500*time.Millisecond+guard.DefaultStoreTimeout)
		}
		g.s.Fail(nil)
		waiting := begin(func() error { return g.lock() })
		g.s.Fail(errDown)
		time.Sleep(believed + time.Millisecond)
		require.ErrorIs(t, g.lock(guard.NoWait()), guard.ErrStore)
		require.ErrorIs(t, <-waiting, guard.ErrStore)
		g.s.Fail(nil)
		g.free(l)
	})
}

// While one's own process holds the lock, nobody need say so.
func TestOutage_AKeyOfTheOwnProcessIsBusyThoughRedisIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		l := g.take(guard.Metadata("me"))
		g.s.Fail(errDown)
		for _, wait := range []guard.LockOption{guard.NoWait(), guard.Wait(time.Second)} {
			errs, _ := g.several(5, wait, guard.FailOpen())
			for _, err := range errs {
				assert.Equal(t, "me", as[*guard.BusyError](t, err).Holder)
			}
		}
		g.s.Fail(nil)
		g.free(l)
	})
}

// Where Redis answers, a wait that is over costs one question, however many give up at a time, and takes no longer.
func TestOutage_GivingUpAsksOnceMore(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		l := g.another().take(guard.Metadata("the other"))
		errs, took := g.several(20, guard.Wait(500*time.Millisecond))
		for i, err := range errs {
			assert.Equal(t, "the other", as[*guard.BusyError](t, err).Holder)
			assert.Equal(t, 500*time.Millisecond, took[i])
		}
		assert.LessOrEqual(t, g.s.Calls("acquire"), 4)
		g.free(l)
	})
}

// A call with FailOpen finds out that nobody answers. Those after it open at once, whatever they lock, for 30 s, or
// until somebody answers. A refusal is an answer.
func TestOutage_FailOpenForgetsAnOutageInTime(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		opens := func(key string, wantTook time.Duration, wantHeld, wantAsked bool) {
			t.Helper()
			begun, asked := time.Now(), g.s.Calls("acquire")
			require.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
				_, held := guard.Held(ctx, key)
				assert.Equal(t, wantHeld, held)
				_, ok := guard.FromContext(ctx)
				assert.Equal(t, wantHeld, ok)
				return nil
			}, guard.FailOpen()))
			assert.Equal(t, wantTook, time.Since(begun))
			assert.Equal(t, wantAsked, g.s.Calls("acquire") > asked)
		}
		g.s.Fail(&guardstore.RefusedError{Err: errDown})
		opens("k", 0, false, true)
		g.s.Fail(nil)
		opens("k", 0, true, true)
		g.s.Fail(errDown)
		opens("k", guard.DefaultStoreTimeout, false, true)
		opens("another", 0, false, false)
		require.ErrorIs(t, g.r.Events(guard.FailedOpen)[2].Err, errDown)
		begun := time.Now()
		require.ErrorIs(t, g.lock(), guard.ErrStore)
		assert.Equal(t, guard.DefaultStoreTimeout, time.Since(begun), "a call without FailOpen asks")
		time.Sleep(30*time.Second - guard.DefaultStoreTimeout - time.Millisecond)
		opens("k", 0, false, false)
		time.Sleep(2 * time.Millisecond)
		opens("k", guard.DefaultStoreTimeout, false, true)
		g.s.Fail(nil)
		time.Sleep(time.Second)
		opens("k", 0, true, true)
	})
}

// That nobody answers takes a StoreTimeout to be sure of. That nobody listens is known sooner: what restarts is back
// within half of it, or takes longer anyway. A refusal is not repeated. A Guard whose subscription is not answered, too,
// takes no longer.
func TestOutage_HowLongACallIsRepeated(t *testing.T) {
	const timeout = 10 * time.Second
	for name, test := range map[string]struct {
		failure, is error
		after       time.Duration
	}{
		"nobody answers": {errDown, errDown, timeout},
		"nobody listens": {errRefused, errRefused, timeout / 2},
		"refused":        {&guardstore.RefusedError{Err: errDown}, errDown, 0},
	} {
		bubble(t, func(t *testing.T, g *rig) {
			g.s.Fail(test.failure)
			begun := time.Now()
			err := g.lock()
			require.ErrorIs(t, err, guard.ErrStore)
			require.ErrorIs(t, err, test.is)
			assert.Equal(t, test.after, time.Since(begun), name)
		}, guard.StoreTimeout(timeout))
	}
	bubble(t, func(t *testing.T, g *rig) {
		silent, err := guard.NewWithStore(deaf{g.s}, guard.StoreTimeout(timeout))
		require.NoError(t, err)
		begun := time.Now()
		_, err = silent.Acquire(t.Context(), k)
		require.ErrorIs(t, err, guard.ErrStore)
		assert.Equal(t, timeout, time.Since(begun))
		require.NoError(t, silent.Close())
	})
}

// deaf is a store that answers neither a claim nor a subscription.
type deaf struct{ *store }

func (deaf) Acquire(ctx context.Context, _ guardstore.Claim) (guardstore.ClaimReply, error) {
	<-ctx.Done()
	return guardstore.ClaimReply{}, ctx.Err()
}

func (deaf) Listen(ctx context.Context, _ string, _ guardstore.Listener) { <-ctx.Done() }

// A release that is not answered is no error of the work. It is repeated asynchronously for as long as the key may be
// kept. A caller of Release learns of it, the second time, too.
func TestOutage_UndeliverableReleaseIsNoErrorOfTheWork(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		require.NoError(t, g.WithLock(t.Context(), k, func(context.Context) error { g.s.Fail(errDown); return nil }))
		assert.Len(t, g.r.Events(guard.ReleaseFailure), 1)
		time.Sleep(5 * time.Second)
		g.s.Fail(nil)
		time.Sleep(time.Second)
		assert.Equal(t, 0, g.s.Depth("k"))

		l := g.take()
		g.s.Fail(errRefused)
		begun := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrStore)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrStore)
		assert.Equal(t, guard.DefaultStoreTimeout/2, time.Since(begun))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 1, g.s.Depth("k"))
		g.s.Fail(nil)
		time.Sleep(time.Second)
		assert.Equal(t, 0, g.s.Depth("k"))
	})
}

// Work that is done waits for a release that is not answered for a quarter of a second, for that of a nested lock as
// long again; for that of a lost hold, on which nothing depends, for less.
func TestOutage_FinishedWorkDoesNotWaitForRedis(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		silence := func(ctx context.Context, _, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		for _, row := range []struct {
			want time.Duration
			lost bool
			opts []guard.LockOption
			work func(ctx context.Context, work func(context.Context) error) error
		}{
			{want: 250 * time.Millisecond, work: func(ctx context.Context, work func(context.Context) error) error { return work(ctx) }},
			{want: 500 * time.Millisecond, work: func(ctx context.Context, work func(context.Context) error) error { return g.WithLock(ctx, k, work) }},
			{want: 50 * time.Millisecond, lost: true, opts: []guard.LockOption{guard.MaxHold(time.Second)}, work: func(ctx context.Context, work func(context.Context) error) error {
				<-ctx.Done()
				return work(ctx)
			}},
		} {
			var begun time.Time
			err := g.WithLock(t.Context(), k, func(ctx context.Context) error {
				return row.work(ctx, func(context.Context) error {
					g.s.trouble(silence, nil)
					begun = time.Now()
					return nil
				})
			}, row.opts...)
			assert.Equal(t, row.want, time.Since(begun))
			assert.Equal(t, row.lost, errors.Is(err, guard.ErrLost), err)
			g.s.trouble(nil, nil)
			time.Sleep(time.Minute)
		}
	})
}

// Ping says whether locks can be had. Close ends one that nobody answers.
func TestPing_SaysWhetherLocksCanBeHad(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		require.NoError(t, g.Ping(t.Context()))
		g.s.Fail(errDown)
		require.ErrorIs(t, g.Ping(t.Context()), guard.ErrStore)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.Ping(ctx), context.DeadlineExceeded)
		ended := begin(func() error { return g.Ping(t.Context()) })
		require.Empty(t, ended)
		require.NoError(t, g.Close())
		is(t, <-ended, guard.ErrClosed, guard.ErrStore)
		require.ErrorIs(t, g.Ping(t.Context()), guard.ErrClosed)
	})
}
