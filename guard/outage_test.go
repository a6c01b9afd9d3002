package guard_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

var errRefused = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// Redis down is never called busy: no reply said that the lock is.
func TestOutage_RedisDownIsNotBusy(t *testing.T) {
	for _, wait := range []guard.LockOption{guard.NoWait(), guard.Wait(500 * time.Millisecond), guard.Wait(time.Minute)} {
		bubble(t, func(t *testing.T, g *env) {
			g.s.Fail(errDown)
			begun := time.Now()
			failure := as[*guard.StoreError](t, g.WithLock(t.Context(), k, never(t), wait))
			is(t, failure, errDown, guard.ErrBusy)
			assert.Equal(t, "acquire", failure.Op)
			assert.Equal(t, "k", failure.Key)
			assert.Equal(t, guard.Event{Kind: guard.EventStoreFailure, Op: "acquire", Err: errDown}, g.r.Events(guard.EventStoreFailure)[0])
			assert.Equal(t, 2*time.Second, time.Since(begun))
			begun = time.Now()
			open := func() error { return g.lock(wait, guard.FailOpen()) }
			first, second := begin(open), begin(open)
			require.NoError(t, <-first)
			require.NoError(t, <-second)
			assert.Equal(t, 2*time.Second, time.Since(begun), "of all")
			assert.Len(t, g.r.Events(guard.EventFailedOpen), 2)
			_, err := g.Acquire(t.Context(), k, guard.FailOpen())
			require.ErrorIs(t, err, guard.ErrOption, "there would be no lease")
		})
	}
}

// A call with FailOpen finds out that Redis does not answer. Calls after it open at once, whatever they lock, for 30 s, or
// until Redis answers. A refusal is an answer.
func TestOutage_FailOpenForgetsAnOutageInTime(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		opens := func(key string, wantTook time.Duration, wantHeld, wantAsked bool) {
			t.Helper()
			begun, asked := time.Now(), g.s.Calls("acquire")
			require.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
				_, held := guard.FromContext(ctx)
				assert.Equal(t, wantHeld, held)
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
		opens("k", 2*time.Second, false, true)
		opens("another", 0, false, false)
		require.ErrorIs(t, g.r.Events(guard.EventFailedOpen)[2].Err, errDown)
		notAsked := as[*guard.StoreError](t, g.r.Events(guard.EventFailedOpen)[2].Err)
		assert.Equal(t, "another", notAsked.Key)
		require.EqualError(t, notAsked.Err, "not asked for, as there is no answer: down")
		begun := time.Now()
		require.ErrorIs(t, g.lock(), guard.ErrStore)
		assert.Equal(t, 2*time.Second, time.Since(begun), "a call without FailOpen asks")
		time.Sleep(30*time.Second - 2*time.Second - time.Millisecond)
		opens("k", 0, false, false)
		time.Sleep(2 * time.Millisecond)
		opens("k", 2*time.Second, false, true)
		g.s.Fail(nil)
		time.Sleep(time.Second)
		opens("k", 0, true, true)
	})
}

// nodes is a store whose keys have servers of their own.
type nodes struct{ *testenv.Faulty }

func (nodes) Server(_ context.Context, key string) string { return key }

// An outage is of one server: of its keys only.
func TestOutage_FailOpenForgetsNoOtherServer(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		cluster, err := guard.NewWithStore(nodes{g.s})
		require.NoError(t, err)
		g.s.Fail(errDown)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, cluster.WithLock(ctx, k, nothing, guard.FailOpen()))
		cancel()
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, cluster.WithLock(t.Context(), k, nothing, guard.FailOpen()))
		assert.Zero(t, time.Since(begun), "though the caller that found it out has left")
		begun = time.Now()
		require.NoError(t, cluster.WithLock(t.Context(), guard.Key("other"), nothing, guard.FailOpen()))
		assert.Equal(t, 2*time.Second, time.Since(begun))
		begun = time.Now()
		require.NoError(t, cluster.WithLocks(t.Context(), []guard.KeyFunc{k}, nothing, guard.FailOpen()))
		require.NoError(t, cluster.WithLock(t.Context(), guard.Key("other"), nothing, guard.FailOpen()))
		assert.Zero(t, time.Since(begun), "both are known")
		require.NoError(t, cluster.Close())
	})
}

// An attempt takes half of StoreTimeout, and a second at most.
func TestOutage_HowLongACallIsRepeated(t *testing.T) {
	for timeout, attempt := range map[time.Duration]time.Duration{10 * time.Second: time.Second, time.Second: time.Second / 2} {
		bubble(t, func(t *testing.T, g *env) {
			var attempts []time.Duration
			g.s.Trouble(only("acquire", func(ctx context.Context) error {
				begun := time.Now()
				defer func() { attempts = append(attempts, time.Since(begun)) }()
				return silent(ctx)
			}), nil)
			begun := time.Now()
			require.ErrorIs(t, g.lock(), guard.ErrStore)
			assert.Equal(t, timeout, time.Since(begun))
			assert.Equal(t, attempt, attempts[0])
			g.s.Trouble(nil, nil)
		}, guard.StoreTimeout(timeout))
	}
}

// A release that is not answered is no error of the work. A caller of Release learns of it, the second time, too.
func TestOutage_UndeliverableReleaseIsNoErrorOfTheWork(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.WithLock(t.Context(), k, func(context.Context) error { g.s.Fail(errDown); return nil }))
		failures := g.r.Events(guard.EventReleaseFailure)
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0].Err, errDown)
		assert.Equal(t, "k", as[*guard.StoreError](t, failures[0].Err).Key)
		g.s.Fail(nil)
		time.Sleep(time.Second)
		l, left := g.take(), g.acquire(t.Context(), "left")
		g.s.Fail(errRefused)
		require.ErrorIs(t, left.Release(canceled(t.Context())), context.Canceled)
		begun := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrStore)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrStore)
		assert.Equal(t, 2*time.Second/2, time.Since(begun))
		g.s.Fail(nil)
		time.Sleep(time.Second)
		assert.Equal(t, 0, g.s.Depth("k"), "it is repeated")
	})
}

// Work that is done waits for a release that is not answered for a quarter of a second, for that of a nested lock as
// long again; for 50 ms if its context has ended, or if the hold was lost, so that nothing depends on the release.
func TestOutage_FinishedWorkDoesNotWaitForRedis(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		leaves, cancel := context.WithCancel(t.Context())
		var begun time.Time
		done := func(context.Context) error {
			g.s.Trouble(func(ctx context.Context, _, _ string) error { return silent(ctx) }, nil)
			begun = time.Now()
			return nil
		}
		for _, row := range []struct {
			ctx  context.Context
			want time.Duration
			work func(ctx context.Context) error
			opt  guard.LockOption
		}{
			{t.Context(), 250 * time.Millisecond, done, nil},
			{t.Context(), 500 * time.Millisecond, func(ctx context.Context) error { return g.WithLock(ctx, k, done) }, nil},
			{leaves, 50 * time.Millisecond, func(ctx context.Context) error { cancel(); return done(ctx) }, nil},
			{t.Context(), 50 * time.Millisecond, func(ctx context.Context) error { <-ctx.Done(); return done(ctx) }, guard.MaxHold(time.Second)},
		} {
			err := g.WithLock(row.ctx, k, row.work, row.opt)
			assert.Equal(t, row.want, time.Since(begun))
			assert.Equal(t, row.opt != nil, errors.Is(err, guard.ErrLost), err)
			g.s.Trouble(nil, nil)
			time.Sleep(time.Minute)
		}
	})
}

// Ping says whether locks can be had. Close ends a Ping that is not answered.
func TestPing_SaysWhetherLocksCanBeHad(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.Ping(t.Context()))
		other := g.another()
		require.NoError(t, other.Ping(nil)) //nolint:staticcheck // it does not end
		require.NoError(t, other.Shutdown(t.Context()), "nothing is on its way")
		g.s.Fail(errDown)
		failure := as[*guard.StoreError](t, g.Ping(t.Context()))
		assert.Equal(t, []string{"ping", ""}, []string{failure.Op, failure.Name})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, g.Ping(ctx), context.DeadlineExceeded)
		failed := g.r.Observations("Event")[0].Lock
		assert.Equal(t, "n", failed.Name)
		assert.True(t, strings.HasPrefix(failed.Key, "ping:"))
		ended := begin(func() error { return g.Ping(t.Context()) })
		require.Empty(t, ended)
		require.NoError(t, g.Close())
		is(t, <-ended, guard.ErrClosed, guard.ErrStore)
		require.ErrorIs(t, g.Ping(t.Context()), guard.ErrClosed)
	}, guard.Name("n"))
}
