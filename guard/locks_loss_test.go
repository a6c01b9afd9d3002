package guard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// blocking is a context that keeps whoever ends a context below it, once it is told to.
type blocking struct {
	context.Context

	block atomic.Bool
	goOn  chan struct{}
}

func (c *blocking) Done() <-chan struct{} {
	if c.block.Load() {
		<-c.goOn
	}
	return c.Context.Done()
}

// Several locks are held at the moment when their work begins, by the clock, whatever the
// watchdog has come to: here it is kept by the context of another lease.
func TestLocksLoss_NoWorkBeginsUnderALeaseThatLapsedWhileAnotherKeyWasWaitedFor(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
		b, err := gs[1].Acquire(t.Context(), guard.Key("b"))
		require.NoError(t, err)
		keeps := &blocking{Context: t.Context(), goOn: make(chan struct{})}
		other, err := gs[0].Acquire(keeps, guard.Key("other"), guard.MaxHold(time.Second))
		require.NoError(t, err)
		keeps.block.Store(true)
		ended := make(chan error, 1)
		go func() {
			ended <- gs[0].WithLocks(t.Context(), keysOf("a b"), func(context.Context) error {
				t.Error("work began though a was lost")
				return nil
			}, guard.FixedLease(), guard.TTL(2*time.Second))
		}()
		time.Sleep(3 * time.Second)
		require.Empty(t, ended, "the watchdog is not kept")
		require.NoError(t, b.Release(t.Context()))
		synctest.Wait()
		close(keeps.goOn)
		err = <-ended
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, guard.ErrMaxHold)
		require.ErrorIs(t, other.Release(t.Context()), guard.ErrMaxHold)
	})
}

// FailOpen is for a lock that cannot be had. Where ctx holds a key, and the store does not
// confirm it, work without that lock is not what was asked for.
func TestLocksLoss_FailOpenRunsNothingWhereAReentryFailed(t *testing.T) {
	inTrouble(t, "re-entry", func(t *testing.T, s *troubled, g *guard.Guard, ctx context.Context) {
		s.trouble(times(1000, "depth", "z", func() error { return errReply }), nil)
		err := g.WithLocks(ctx, keysOf("a z"), func(context.Context) error { t.Error("ran"); return nil }, guard.FailOpen())
		require.ErrorIs(t, err, guard.ErrStore)
		var failure *guard.StoreError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "z", failure.Key)
	})
}

// A key that was got although one before it is busy is free when the call returns, however
// long its release takes.
func TestLocksLoss_WhatWasGotAfterABusyKeyIsFreeWhenTheCallReturns(t *testing.T) {
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	defer r.TakenByAnother(t, "a")()
	kept, goOn := r.Proxy.HoldRequest(testenv.Both(testenv.RunsScript(t, "release"), redistest.Contains(testenv.LockOf("b"))))
	held := make(chan string, 1)
	go func() {
		err := r.WithLocks(t.Context(), keysOf("a b"), testenv.Nothing, guard.NoWait())
		assert.ErrorIs(t, err, guard.ErrBusy)
		held <- heldOf(t, r, "b")
	}()
	testenv.Await(t, kept)
	select {
	case held := <-held:
		assert.Empty(t, held, "the call returned before its release")
		goOn()
	case <-time.After(50 * time.Millisecond): // it waits, as it should
		goOn()
		assert.Empty(t, <-held)
	}
}
