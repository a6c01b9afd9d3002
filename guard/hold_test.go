package guard_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

// inner takes k under a lease.
func (g *env) inner(l *guard.Lease) *guard.Lease {
	g.t.Helper()
	return g.acquire(context.WithoutCancel(l.Context()), "k")
}

// revoke ends the hold of k, and notifies no owner.
func (g *env) revoke() {
	_, fence := g.s.Last("k")
	g.s.Mute(true)
	g.s.Revoke("k", fence)
}

// A slow Observer gives the lock time to be lost after the store confirmed it.
func TestHold_NoWorkBeginsUnderAHoldThatIsLostWhileItIsEntered(t *testing.T) {
	o := &faulty{method: "WaitEnd"}
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		o.fault = func() {
			g.s.Drop("k")
			time.Sleep(guard.DefaultTTL)
		}
		o.n.Store(1)
		require.ErrorIs(t, g.WithLock(outer.Context(), k, never(t)), guard.ErrLost)
		require.ErrorIs(t, outer.Release(t.Context()), guard.ErrLost)
		assert.Len(t, g.r.Observations("HoldEnd"), len(g.r.Observations("HoldStart")))
	}, guard.Observe(o))
}

// The counter is written by one call at a time. A caller leaves that waits for it when its context ends.
func TestHold_OneCallWritesTheCounterAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take()
		var writing atomic.Int32
		g.s.Trouble(only("depth", func(context.Context) error {
			assert.EqualValues(t, 1, writing.Add(1))
			time.Sleep(500 * time.Millisecond)
			writing.Add(-1)
			return nil
		}), nil)
		var nested []chan error
		for range 3 {
			nested = append(nested, begin(func() error { return g.WithLock(l.Context(), k, nothing) }))
		}
		ctx, cancel := context.WithTimeout(l.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, g.WithLock(ctx, k, never(t)), context.DeadlineExceeded)
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		for _, ended := range nested {
			require.NoError(t, <-ended)
		}
		g.free(l)
	})
}

// A nested call whose answer comes when the lease has ended by the clock does not begin, though the watchdog is late.
func TestHold_NoWorkBeginsUnderALeaseThatEndedWhileItWasEntered(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		goOn := g.keepWatchdog()
		l := g.take(guard.MaxHold(3 * time.Second))
		time.Sleep(2500 * time.Millisecond)
		g.s.Trouble(nil, only("depth", slowly(900*time.Millisecond)))
		require.ErrorIs(t, g.WithLock(context.WithoutCancel(l.Context()), k, never(t)), guard.ErrMaxHold)
		goOn()
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrMaxHold)
	})
}

// The next caller does not find the key taken by a hold that was lost, though an Observer of a loss has not returned, and no
// release is answered.
func TestHold_ALostKeyIsFreeThoughAnObserverBlocks(t *testing.T) {
	o := &faulty{method: guard.EventLoss.String()}
	bubble(t, func(t *testing.T, g *env) {
		granted, goOn := time.Now(), make(chan struct{})
		o.fault = func() { <-goOn }
		o.n.Store(1)
		a, b := g.acquire(t.Context(), "a"), g.acquire(t.Context(), "b")
		next := make(chan *guard.Lease, 2)
		for _, key := range []string{"a", "b"} {
			go func() { next <- g.acquire(t.Context(), key) }()
		}
		g.s.Trouble(func(ctx context.Context, op, _ string) error {
			if op == "renew" || op == "release" {
				return silent(ctx)
			}
			return nil
		}, nil)
		time.Sleep(guard.DefaultTTL)
		require.ErrorIs(t, a.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, b.Release(t.Context()), guard.ErrLost)
		assert.LessOrEqual(t, time.Since(granted), guard.DefaultTTL+100*time.Millisecond, "50 ms for each release")
		synctest.Wait()
		assert.Len(t, next, 2)
		close(goOn)
		g.s.Trouble(nil, nil)
		g.free(<-next, <-next)
	}, guard.Observe(o))
}

// A call under a lost lease says why that was lost, whether its own Guard was closed since, or that of the lease.
func TestHold_TheFirstLossIsTheReason(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		closed, lost := other.acquire(t.Context(), "closed"), g.acquire(t.Context(), "lost", guard.MaxHold(time.Second))
		require.NoError(t, other.Close())
		err := g.WithLock(closed.Context(), k, never(t))
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, guard.ErrClosed)
		<-lost.Context().Done()
		require.NoError(t, g.Close())
		is(t, g.WithLock(lost.Context(), k, never(t)), guard.ErrMaxHold, guard.ErrClosed)
		_ = closed.Release(t.Context())
		_ = lost.Release(t.Context())
	})
}

func TestHold_TheLastLeaseReleases(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		inner := g.inner(outer)
		innermost := g.inner(inner)
		assert.Equal(t, 3, g.s.Depth("k"))
		g.free(outer)
		assert.Equal(t, 2, g.s.Depth("k"))
		g.free(innermost)
		assert.Equal(t, 1, g.s.Depth("k"))
		require.NoError(t, inner.Err())
		require.ErrorIs(t, outer.Err(), guard.ErrReleased)
		require.NoError(t, outer.Context().Err(), "the inner ones work under it")
		g.free(inner)
		require.Error(t, outer.Context().Err())
		g.free(outer, inner, innermost)
		assert.Equal(t, 1, g.s.Calls("release"))
	})
}

// A call that is nested under a released lease is one of those that still have the hold.
func TestHold_ACallThroughAReleasedLease(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		inner := g.inner(outer)
		g.free(inner)
		for range 3 {
			g.free(g.inner(inner))
			require.NoError(t, outer.Context().Err())
			require.NoError(t, outer.Err())
		}
		again := g.inner(inner)
		g.free(outer)
		require.NoError(t, outer.Context().Err(), "it works under it")
		g.free(again)
		require.Error(t, outer.Context().Err())
	})
}

func TestHold_ContextsEndBeforeObserversLearnOfALoss(t *testing.T) {
	o, notified := &faulty{method: guard.EventLoss.String()}, 0
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		inner := g.inner(outer)
		o.fault = func() {
			notified++
			assert.Error(t, outer.Context().Err())
			assert.Error(t, inner.Context().Err())
		}
		o.n.Store(1)
		g.s.Drop("k")
		time.Sleep(guard.DefaultTTL)
		require.ErrorIs(t, inner.Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, outer.Release(t.Context()), guard.ErrLost)
		synctest.Wait()
		assert.Equal(t, 1, notified)
		ends := g.r.Observations("HoldEnd")
		require.Len(t, ends, 2, "of each lease, once")
		for i, o := range ends {
			assert.Equal(t, []any{2 - i, guard.OutcomeLost}, []any{o.Hold.Depth, o.Hold.Outcome})
			require.ErrorIs(t, o.Hold.Err, guard.ErrLost)
		}
		assert.Equal(t, 1, g.s.Calls("release"), "of what may be left")
	}, guard.Observe(o))
}

func TestHold_ReleaseReplies(t *testing.T) {
	refused := &guardstore.RefusedError{Err: errBoom}
	drop := func(g *env) { g.s.Drop("k") }
	for name, c := range map[string]struct {
		before func(g *env) // on its way to the store
		late   time.Duration
		lost   error // of the first
		want   error
		event  guard.EventKind
		after  time.Duration // since the grant
	}{
		"done":                           {},
		"not held":                       {before: drop, want: guard.ErrLost, event: guard.EventLoss},
		"revoked":                        {before: (*env).revoke, want: guard.ErrRevoked, event: guard.EventLoss},
		"not held, the second time":      {before: drop, lost: errReply, event: guard.EventStoreFailure},
		"not held, when it was over":     {before: drop, late: 2 * time.Second, after: 25 * time.Second},
		"not held, just before it was":   {before: drop, late: time.Second, after: 25 * time.Second, want: guard.ErrLost, event: guard.EventLoss},
		"refused, but not a second time": {lost: refused, event: guard.EventStoreFailure},
	} {
		bubble(t, func(t *testing.T, g *env) {
			l, sent := g.take(), 0
			g.s.Trouble(func(ctx context.Context, op, _ string) error {
				switch {
				case op == "renew" && c.after > 0:
					return silent(ctx)
				case op != "release":
					return nil
				}
				if sent++; c.before != nil {
					c.before(g)
				}
				time.Sleep(c.late)
				if sent > 1 {
					return nil
				}
				return c.lost
			}, nil)
			time.Sleep(c.after)
			seen := g.r.Observations("Event")
			require.ErrorIs(t, l.Release(t.Context()), c.want, name)
			synctest.Wait()
			events := g.r.Observations("Event")[len(seen):]
			if c.event == 0 {
				assert.Empty(t, events, name)
			} else if assert.Len(t, events, 1, name) {
				assert.Equal(t, c.event, events[0].Event.Kind, name)
				if c.want != nil {
					require.ErrorIs(t, events[0].Event.Err, c.want, name)
				}
			}
			time.Sleep(2 * guard.DefaultTTL)
			assert.Equal(t, 1+strings.Count(name, "second"), sent, name)
		})
	}
}

func TestHold_CloseWhileALockIsGranted(t *testing.T) {
	o := &faulty{method: "WaitEnd"}
	bubble(t, func(t *testing.T, g *env) {
		o.fault = func() { _ = g.Close() }
		o.n.Store(1)
		err := g.WithLock(t.Context(), k, func(ctx context.Context) error {
			assert.ErrorIs(t, context.Cause(ctx), guard.ErrClosed)
			return nil
		})
		require.ErrorIs(t, err, guard.ErrClosed)
		require.ErrorIs(t, err, guard.ErrLost)
	}, guard.Observe(o))
}

// A loss is printed once, whichever way the work reports it.
func TestHold_TheErrorOfWorkIsJoinedWithTheLossOnce(t *testing.T) {
	const loss = `guard: lock "lock" was lost: no longer held in the store`
	for text, works := range map[string][]func(g *env, ctx context.Context) error{
		loss: {
			func(*env, context.Context) error { return nil },
			func(_ *env, ctx context.Context) error { return context.Cause(ctx) },
			func(g *env, ctx context.Context) error { return g.WithLock(ctx, k, never(g.t)) },
		},
		loss + "\nboom":   {func(*env, context.Context) error { return errBoom }},
		"paying: " + loss: {func(_ *env, ctx context.Context) error { return fmt.Errorf("paying: %w", context.Cause(ctx)) }},
	} {
		for _, work := range works {
			bubble(t, func(t *testing.T, g *env) {
				err := g.WithLock(t.Context(), k, func(ctx context.Context) error {
					g.s.Drop("k")
					<-ctx.Done()
					return work(g, ctx)
				})
				require.EqualError(t, err, text)
				require.ErrorIs(t, err, guard.ErrLost)
			}, guard.Name("lock"))
		}
	}
}

// What a caller learns that did not get the lock, in time.
func TestHold_BusyErrorFields(t *testing.T) {
	for name, c := range map[string]struct {
		kept        time.Duration // after its work, 0 = at work
		waits       time.Duration
		outcome     string
		least, most time.Duration // of RetryAfter
	}{
		"at once":                 {0, 0, guard.OutcomeBusy, time.Second, 2 * time.Second},
		"after a wait":            {0, time.Second, guard.OutcomeTimeout, time.Second, 2 * time.Second},
		"kept after its work":     {20 * time.Second, 0, guard.OutcomeBusy, 20 * time.Second, 20 * time.Second},
		"kept for a moment":       {time.Millisecond, 0, guard.OutcomeBusy, time.Second, time.Second},
		"kept until after a wait": {20 * time.Second, time.Second, guard.OutcomeTimeout, 19 * time.Second, 20 * time.Second},
	} {
		bubble(t, func(t *testing.T, g *env) {
			l := g.another().take(guard.Metadata("who"), guard.MinHold(c.kept))
			if c.kept > 0 {
				g.free(l)
			}
			busy := g.busy(guard.Wait(c.waits))
			assert.Equal(t, []any{"who", "k", c.waits, c.kept > 0}, []any{busy.Holder, busy.Key, busy.Waited, busy.HeldOver}, name)
			assert.GreaterOrEqual(t, busy.RetryAfter, c.least, name)
			assert.LessOrEqual(t, busy.RetryAfter, c.most, name)
			require.NoError(t, busy.Err)
			wait := g.r.Observations("WaitEnd")[0].Wait
			assert.Equal(t, []any{c.outcome, "who", c.waits > 0, busy}, []any{wait.Outcome, wait.Holder, wait.Queued, wait.Err}, name)
		})
	}
}

// The lease of a hold has ended by the clock, and the watchdog was late: the context of another lease keeps it.
// The call that finds out first reports the loss, once.
func TestHold_ALossThatTheWatchdogHasNotReached(t *testing.T) {
	for name, find := range map[string]func(l *guard.Lease) error{
		"Err":     func(l *guard.Lease) error { return l.Err() },
		"Check":   func(l *guard.Lease) error { return l.Check(context.Background()) },
		"Release": func(l *guard.Lease) error { return l.Release(context.Background()) },
		"nested":  func(l *guard.Lease) error { return guard.WithLock(context.WithoutCancel(l.Context()), k, nothing) },
	} {
		bubble(t, func(t *testing.T, g *env) {
			goOn := g.keepWatchdog()
			l := g.take()
			g.s.Trouble(only("renew depth", silent), nil)
			time.Sleep(guard.DefaultTTL)
			require.NoError(t, l.Context().Err(), "the watchdog is not kept")
			next := g.later()
			is(t, find(l), guard.ErrLost, guard.ErrReleased)
			synctest.Wait()
			is(t, context.Cause(l.Context()), guard.ErrLost, guard.ErrReleased)
			ends := g.r.Observations("HoldEnd")
			require.Len(t, ends, 1, name)
			assert.Equal(t, guard.OutcomeLost, ends[0].Hold.Outcome)
			events := g.r.Observations("HoldEnd", "Event")
			assert.Equal(t, guard.EventLoss, events[len(events)-2].Event.Kind, name+": the hold is observed to end after its loss")
			require.Len(t, next, 1, name+": the next one is let in")
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
			is(t, l.Err(), guard.ErrLost, guard.ErrReleased)
			goOn()
			synctest.Wait()
			require.Len(t, g.r.Events(guard.EventLoss), 2, name+": of it and of the other")
			_ = (<-next).Release(t.Context())
		})
	}
}

// The last lease of a hold is a nested one, and its release finds the loss: each lease is observed to end, once.
func TestHold_ALossThatTheLastReleaseFinds(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		goOn := g.keepWatchdog()
		outer := g.take()
		inner := g.inner(outer)
		g.free(outer)
		g.s.Trouble(only("renew", silent), nil)
		time.Sleep(guard.DefaultTTL)
		is(t, inner.Release(t.Context()), guard.ErrLost, guard.ErrReleased)
		for _, l := range []*guard.Lease{outer, inner} {
			is(t, context.Cause(l.Context()), guard.ErrLost, guard.ErrReleased)
		}
		ends := g.r.Observations("HoldEnd")
		require.Len(t, ends, 2)
		assert.Equal(t, guard.OutcomeLost, ends[1].Hold.Outcome)
		assert.Equal(t, 2, ends[1].Hold.Depth)
		goOn()
	})
}

// A loss ends each nested lease, also under contexts of their own. The end of a nested lease asks nothing then.
func TestHold_ALossEndsAllNestedLeases(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		inner := []*guard.Lease{g.inner(outer), g.inner(outer), g.inner(outer)}
		g.s.Drop("k")
		require.ErrorIs(t, outer.Check(t.Context()), guard.ErrLost)
		asked := g.s.Calls("renew")
		for _, l := range inner {
			require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
		assert.Equal(t, asked, g.s.Calls("renew"))
		require.ErrorIs(t, outer.Release(t.Context()), guard.ErrLost)
	})
}

func TestHold_RenewalReplies(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take()
		time.Sleep(11 * time.Second)
		g.s.Trouble(times(1, "renew", "k", func() error { g.revoke(); return errReply }), nil)
		time.Sleep(guard.DefaultTTL)
		require.ErrorIs(t, l.Err(), guard.ErrRevoked)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrRevoked)
		assert.Len(t, g.r.Events(guard.EventRenewal), 1)
		assert.Equal(t, []guard.Event{{Kind: guard.EventStoreFailure, Op: "renew", Err: errReply}}, g.r.Events(guard.EventStoreFailure))
		assert.Len(t, g.r.Events(guard.EventLoss), 1)
	})
}

// The hold ends in good order while a nested call that has ended is still on its way to the store: no loss.
func TestHold_AHoldThatEndsWhileANestedCallLeaves(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		inner := g.inner(outer)
		g.s.Trouble(times(1, "depth", "k", func() error { time.Sleep(time.Second); return nil }), nil)
		left := begin(func() error { return inner.Release(t.Context()) })
		require.Empty(t, left)
		g.free(outer)
		require.NoError(t, <-left)
	})
}

func TestHold_HowAHoldEndedIsObservedOnce(t *testing.T) {
	for outcome, end := range map[string]func(g *env, l *guard.Lease){
		guard.OutcomeReleased: func(*env, *guard.Lease) {},
		guard.OutcomeMaxHold:  func(_ *env, l *guard.Lease) { <-l.Context().Done() },
		guard.OutcomeClosed:   func(g *env, _ *guard.Lease) { _ = g.Close() },
	} {
		bubble(t, func(t *testing.T, g *env) {
			l := g.take(guard.MaxHold(time.Minute))
			time.Sleep(time.Second)
			end(g, l)
			_ = l.Release(t.Context())
			_ = l.Release(t.Context())
			synctest.Wait()
			ends := g.r.Observations("HoldEnd")
			require.Len(t, ends, 1)
			assert.Equal(t, outcome, ends[0].Hold.Outcome)
			assert.Equal(t, outcome == guard.OutcomeReleased, ends[0].Hold.Err == nil)
			assert.GreaterOrEqual(t, ends[0].Hold.Elapsed, time.Second)
			assert.Equal(t, l.Fence(), ends[0].Hold.Fence)
		})
	}
}
