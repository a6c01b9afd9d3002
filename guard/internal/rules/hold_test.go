package rules_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// The hold is lost after the store said that it is entered, and before the work begins: a slow
// observer. The work does not run.
func TestHold_WhatIsLostWhileItIsEntered(t *testing.T) {
	var lost atomic.Bool
	s := &store{renew: func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Held: !lost.Load()} }}
	slow := &watcher{waitEnd: func(r guard.WaitResult) {
		if r.Depth == 2 {
			lost.Store(true)
			time.Sleep(ttl)
		}
	}}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		outer := acquire(t, t.Context(), g)
		ran := false
		err := g.WithLock(outer.Context(), key, func(context.Context) error { ran = true; return nil })
		require.ErrorIs(t, err, guard.ErrLost)
		assert.False(t, ran)
		require.ErrorIs(t, outer.Release(t.Context()), guard.ErrLost)
	}, guard.Observe(slow))
}

// The store says of a nested call that its hold is not there, or was revoked. That is the end of
// the hold, at once.
func TestHold_ANestedCallFindsItsHoldGone(t *testing.T) {
	for name, test := range map[string]struct {
		reply guardstore.RenewReply
		cause error
	}{
		"not there": {},
		"revoked":   {reply: guardstore.RenewReply{Revoked: true}, cause: guard.ErrRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{depth: func(int, guardstore.Grant) guardstore.RenewReply { return test.reply }}
			inBubble(t, s, func(t *testing.T, g *guard.Guard) {
				outer := acquire(t, t.Context(), g)
				begun := time.Now()
				_, err := g.Acquire(outer.Context(), key)
				require.ErrorIs(t, err, guard.ErrLost)
				require.Error(t, outer.Context().Err(), "all work of the hold ends")
				assert.Equal(t, begun, time.Now())
				if test.cause != nil {
					require.ErrorIs(t, err, test.cause)
				}
				require.ErrorIs(t, context.Cause(outer.Context()), guard.ErrLost)
				require.ErrorIs(t, outer.Release(t.Context()), guard.ErrLost)
			})
		})
	}
}

// The counter says how many calls are inside, and the last one out gives the lock back.
func TestHold_TheLastOneOutReleases(t *testing.T) {
	s := &store{}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		outer := acquire(t, t.Context(), g)
		inner := acquire(t, outer.Context(), g)
		innermost := acquire(t, inner.Context(), g)
		require.NoError(t, outer.Release(t.Context()))
		require.NoError(t, innermost.Release(t.Context()))
		assert.Empty(t, s.released())
		require.NoError(t, inner.Err())
		require.ErrorIs(t, outer.Err(), guard.ErrReleased)
		assert.NoError(t, outer.Context().Err(), "the inner ones work under it")
		require.NoError(t, inner.Release(t.Context()))
		require.Len(t, s.released(), 1)
		require.Error(t, outer.Context().Err())
		var depths []int
		for _, g := range s.depths {
			depths = append(depths, g.Depth)
		}
		assert.Equal(t, []int{2, 3, 2, 1}, depths)
		for _, l := range []*guard.Lease{outer, inner, innermost} {
			require.NoError(t, l.Release(t.Context()), "again")
		}
		require.Len(t, s.released(), 1)
	})
}

// A call that is nested by way of a lease which was released is one of those that still have
// the hold. When it ends, the context of the others goes on.
func TestHold_ACallThroughAReleasedLease(t *testing.T) {
	inBubble(t, &store{}, func(t *testing.T, g *guard.Guard) {
		outer := acquire(t, t.Context(), g)
		inner := acquire(t, outer.Context(), g)
		require.NoError(t, inner.Release(t.Context()))
		through := context.WithoutCancel(inner.Context())
		for range 3 {
			again := acquire(t, through, g)
			require.NoError(t, again.Release(t.Context()))
			require.NoError(t, outer.Context().Err())
			require.NoError(t, outer.Err())
		}
		again := acquire(t, through, g)
		require.NoError(t, outer.Release(t.Context()))
		require.NoError(t, outer.Context().Err(), "it works under it")
		require.NoError(t, again.Release(t.Context()))
		require.Error(t, outer.Context().Err())
	})
}

// The counter is 1 as long as nothing is nested, and the hold's MinHold goes with its release.
func TestHold_WhatTheStoreHearsOfAHold(t *testing.T) {
	s := &store{}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		l := acquire(t, t.Context(), g, guard.MinHold(time.Second))
		time.Sleep(ttl / 2)
		synctest.Wait()
		_, _, renewals, _ := s.count()
		require.Equal(t, 1, renewals)
		assert.Equal(t, 1, s.renewals[0].Depth)
		assert.Equal(t, ttl, s.renewals[0].TTL)
		assert.Equal(t, l.Owner(), s.renewals[0].Owner)
		assert.Equal(t, l.Fence(), s.renewals[0].Fence)
		require.NoError(t, l.Release(t.Context()))
		assert.Equal(t, time.Second, s.released()[0].MinHold)
	})
}

// Work hears of a loss before anybody else does: observers take their time.
func TestHold_ContextsEndBeforeObserversHear(t *testing.T) {
	var outer, inner atomic.Pointer[guard.Lease]
	heard := 0
	first := &watcher{event: func(_ context.Context, e guard.Event) {
		if e.Kind == guard.Loss {
			heard++
			assert.Error(t, outer.Load().Context().Err())
			assert.Error(t, inner.Load().Context().Err())
			assert.ErrorIs(t, e.Err, guard.ErrLost)
		}
	}}
	var ends []guard.HoldResult
	first.holdEnd = func(r guard.HoldResult) { ends = append(ends, r) }
	s := &store{renew: func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{} }}
	s.depth = func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Held: true} }
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		outer.Store(acquire(t, t.Context(), g))
		inner.Store(acquire(t, context.WithoutCancel(outer.Load().Context()), g))
		time.Sleep(ttl)
		synctest.Wait()
		assert.Equal(t, 1, heard)
		require.Len(t, ends, 2)
		assert.Equal(t, []int{2, 1}, []int{ends[0].Depth, ends[1].Depth})
		for _, r := range ends {
			assert.Equal(t, guard.OutcomeLost, r.Outcome)
			assert.ErrorIs(t, r.Err, guard.ErrLost)
		}
		require.ErrorIs(t, inner.Load().Release(t.Context()), guard.ErrLost)
		require.ErrorIs(t, outer.Load().Release(t.Context()), guard.ErrLost)
		assert.Len(t, ends, 2, "told once")
		assert.Equal(t, 1, heard)
		require.Len(t, s.released(), 1, "what may be left of it")
	}, guard.Observe(first))
}

// The clock says that a lease is over, though the watchdog did not get to it yet.
func TestHold_ALeaseLooksAtTheClock(t *testing.T) {
	losses := 0
	seen := &watcher{event: func(_ context.Context, e guard.Event) {
		if e.Kind == guard.Loss {
			losses++
		}
	}}
	silent := &store{renew: func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Err: errUnanswered} }}
	inBubble(t, silent, func(t *testing.T, g *guard.Guard) {
		l := acquire(t, t.Context(), g)
		deadline := l.Deadline()
		time.Sleep(time.Until(deadline) - time.Nanosecond)
		require.NoError(t, l.Err())
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, l.Err(), guard.ErrLost)
		require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
		require.ErrorContains(t, l.Err(), "no answer")
		require.NotErrorIs(t, l.Err(), errUnanswered)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		synctest.Wait()
		assert.Equal(t, 1, losses)
	}, guard.Observe(seen))
}

// What the store says of a release, and what it means.
func TestHold_WhatAReleaseSays(t *testing.T) {
	reply := func(status guardstore.ReleaseStatus, late time.Duration, fails int) func(int, guardstore.Release) (guardstore.ReleaseReply, error) {
		return func(n int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
			if n <= fails {
				return guardstore.ReleaseReply{}, errUnanswered
			}
			time.Sleep(late)
			return guardstore.ReleaseReply{Status: status}, nil
		}
	}
	refused := &guardstore.RefusedError{Err: errBroken}
	for name, test := range map[string]struct {
		release func(int, guardstore.Release) (guardstore.ReleaseReply, error)
		after   time.Duration // since the grant
		want    error
		events  []guard.EventKind
		sent    int
	}{
		"done":                          {release: reply(guardstore.ReleaseDone, 0, 0), sent: 1},
		"not held":                      {release: reply(guardstore.ReleaseLost, 0, 0), want: guard.ErrLost, events: []guard.EventKind{guard.Loss}, sent: 1},
		"revoked":                       {release: reply(guardstore.ReleaseRevoked, 0, 0), want: guard.ErrRevoked, events: []guard.EventKind{guard.Loss}, sent: 1},
		"not held, the second time":     {release: reply(guardstore.ReleaseLost, 0, 1), events: []guard.EventKind{guard.StoreFailure}, sent: 2},
		"not held, when it was over":    {release: reply(guardstore.ReleaseLost, 2*time.Second, 0), after: 25 * time.Second, sent: 1},
		"not held, just before it was":  {release: reply(guardstore.ReleaseLost, time.Second, 0), after: 25 * time.Second, want: guard.ErrLost, events: []guard.EventKind{guard.Loss}, sent: 1},
		"done, the second time":         {release: reply(guardstore.ReleaseDone, 0, 1), events: []guard.EventKind{guard.StoreFailure}, sent: 2},
		"released before, after it was": {release: reply(guardstore.ReleaseAlready, 0, 1), events: []guard.EventKind{guard.StoreFailure}, sent: 2},
		"refused": {
			release: func(int, guardstore.Release) (guardstore.ReleaseReply, error) {
				return guardstore.ReleaseReply{}, refused
			},
			want: guard.ErrStore, events: []guard.EventKind{guard.ReleaseFailure}, sent: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var events []guard.EventKind
			seen := &watcher{event: func(_ context.Context, e guard.Event) {
				if e.Kind != guard.Renewal {
					events = append(events, e.Kind)
				}
			}}
			s := &store{release: test.release}
			if test.after > 0 { // nothing renews it
				s.renew = func(int, guardstore.Grant) guardstore.RenewReply {
					time.Sleep(ttl)
					return guardstore.RenewReply{Err: errUnanswered}
				}
			}
			inBubble(t, s, func(t *testing.T, g *guard.Guard) {
				l := acquire(t, t.Context(), g)
				time.Sleep(test.after)
				err := l.Release(t.Context())
				synctest.Wait()
				if test.want == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, test.want)
				}
				assert.Equal(t, test.events, events)
				time.Sleep(2 * ttl)
				assert.Len(t, s.released(), test.sent)
			}, guard.Observe(seen))
		})
	}
}

// Close lets such a release finish, and gives it half a second.
func TestHold_CloseLetsAReleaseFinish(t *testing.T) {
	for _, most := range []int{3, 1000} {
		s := &store{}
		s.release = func(n int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
			time.Sleep(60 * time.Millisecond)
			if n <= most {
				return guardstore.ReleaseReply{}, errUnanswered
			}
			return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
		}
		inBubble(t, s, func(t *testing.T, g *guard.Guard) {
			ctx, cancel := context.WithCancel(t.Context())
			require.NoError(t, g.WithLock(ctx, key, func(context.Context) error { cancel(); return nil }))
			begun := time.Now()
			require.NoError(t, g.Close())
			if most == 3 {
				assert.Len(t, s.released(), 4)
			} else {
				assert.InDelta(t, 500, time.Since(begun).Milliseconds(), 300)
			}
		})
	}
}

// The message that a hold was revoked overtakes the reply by which it was granted: the Guard looks
// at once. The store has the last word.
func TestHold_ARevocationThatOvertakesTheGrant(t *testing.T) {
	for _, revoked := range []bool{true, false} {
		s := &store{renew: func(int, guardstore.Grant) guardstore.RenewReply {
			return guardstore.RenewReply{Held: !revoked, Revoked: revoked}
		}}
		s.acquire = func(n int, c guardstore.Claim) (guardstore.ClaimReply, error) {
			if n == 2 {
				s.ear.Notify(guardstore.Notification{Owner: c.Owner, Revoked: true})
				time.Sleep(time.Millisecond)
			}
			return held(n)
		}
		inBubble(t, s, func(t *testing.T, g *guard.Guard) {
			l := acquire(t, t.Context(), g)
			require.NoError(t, l.Release(t.Context()))
			synctest.Wait()
			l = acquire(t, t.Context(), g, guard.FixedLease())
			begun := time.Now()
			synctest.Wait()
			if revoked {
				require.ErrorIs(t, l.Err(), guard.ErrRevoked)
				require.Error(t, l.Context().Err())
			} else {
				require.NoError(t, l.Err())
			}
			assert.Equal(t, begun, time.Now())
			_, looks, renewals, _ := s.count()
			assert.Equal(t, 1, looks, "it looks, and moves no expiry")
			assert.Zero(t, renewals)
			_ = l.Release(t.Context())
		})
	}
}

// However many revocations overtake their grants, each is heeded.
func TestHold_ManyRevocationsThatOvertakeTheirGrants(t *testing.T) {
	const many = 100
	var asked sync.WaitGroup
	s := &store{depth: func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Revoked: true} }}
	s.acquire = func(n int, c guardstore.Claim) (guardstore.ClaimReply, error) {
		if n > 1 {
			s.ear.Notify(guardstore.Notification{Owner: c.Owner, Revoked: true})
			asked.Done()
			asked.Wait()
			time.Sleep(time.Millisecond)
		}
		return held(n)
	}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		require.NoError(t, acquire(t, t.Context(), g).Release(t.Context()))
		synctest.Wait()
		asked.Add(many)
		leases := make(chan *guard.Lease, many)
		for i := range many {
			go func() {
				l, err := g.Acquire(t.Context(), guard.Keyf("%d", i), guard.FixedLease())
				assert.NoError(t, err)
				leases <- l
			}()
		}
		time.Sleep(time.Second)
		for range many {
			l := <-leases
			require.ErrorIs(t, l.Err(), guard.ErrRevoked)
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrRevoked)
		}
	})
}

// Close passes by while a lock is granted: its work has no lock.
func TestHold_CloseWhileALockIsGranted(t *testing.T) {
	var g *guard.Guard
	closing := &watcher{waitEnd: func(guard.WaitResult) { _ = g.Close() }}
	inBubble(t, &store{}, func(t *testing.T, made *guard.Guard) {
		g = made
		err := g.WithLock(t.Context(), key, func(ctx context.Context) error {
			assert.ErrorIs(t, context.Cause(ctx), guard.ErrClosed)
			return nil
		})
		require.ErrorIs(t, err, guard.ErrClosed)
		require.ErrorIs(t, err, guard.ErrLost)
	}, guard.Observe(closing))
}

// What work returns is joined with the loss of its lock, once.
func TestHold_TheErrorOfWorkThatLostItsLock(t *testing.T) {
	for name, test := range map[string]struct {
		returns func(ctx context.Context) error
		broken  bool
		text    string
	}{
		"nil":      {func(context.Context) error { return nil }, false, `guard: lock "lock" was lost: no longer held in the store`},
		"an error": {func(context.Context) error { return errBroken }, true, "guard: lock \"lock\" was lost: no longer held in the store\nbroken"},
		"the loss": {context.Cause, false, `guard: lock "lock" was lost: no longer held in the store`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{renew: func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{} }}
			inBubble(t, s, func(t *testing.T, g *guard.Guard) {
				err := g.WithLock(t.Context(), key, func(ctx context.Context) error {
					<-ctx.Done()
					return test.returns(ctx)
				})
				require.ErrorIs(t, err, guard.ErrLost)
				if test.broken {
					require.ErrorIs(t, err, errBroken)
				}
				assert.Equal(t, test.text, err.Error())
			}, guard.Name("lock"))
		})
	}
}

// What a caller that did not get the lock is told.
func TestHold_WhatABusyLockTells(t *testing.T) {
	busy := func(done bool, left time.Duration) func(int, guardstore.Claim) (guardstore.ClaimReply, error) {
		return func(int, guardstore.Claim) (guardstore.ClaimReply, error) {
			return guardstore.ClaimReply{
				Status: guardstore.ClaimBusy, Remaining: left, Holder: "who", Limit: 3, Done: done, Ticket: 7, Ahead: 3,
			}, nil
		}
	}
	for name, test := range map[string]struct {
		done    bool
		left    time.Duration
		opt     guard.LockOption
		waited  time.Duration
		isDone  bool
		outcome string
		least   time.Duration
		most    time.Duration
	}{
		"at once":                 {left: ttl, opt: guard.NoWait(), outcome: guard.OutcomeBusy, least: time.Second, most: 2 * time.Second},
		"after a wait":            {left: ttl, opt: guard.Wait(time.Second), waited: time.Second, outcome: guard.OutcomeTimeout, least: time.Second, most: 2 * time.Second},
		"kept after its work":     {done: true, left: 20 * time.Second, opt: guard.NoWait(), isDone: true, outcome: guard.OutcomeBusy, least: 20 * time.Second, most: 20 * time.Second},
		"kept for a moment":       {done: true, left: time.Millisecond, opt: guard.NoWait(), isDone: true, outcome: guard.OutcomeBusy, least: time.Second, most: time.Second},
		"kept until after a wait": {done: true, left: 20 * time.Second, opt: guard.Wait(time.Second), waited: time.Second, isDone: true, outcome: guard.OutcomeTimeout, least: 19 * time.Second, most: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var told guard.WaitResult
			seen := &watcher{waitEnd: func(r guard.WaitResult) { told = r }}
			inBubble(t, &store{acquire: busy(test.done, test.left)}, func(t *testing.T, g *guard.Guard) {
				_, err := g.Acquire(t.Context(), key, test.opt)
				var busy *guard.BusyError
				require.ErrorAs(t, err, &busy)
				assert.Equal(t, "who", busy.Holder)
				assert.Equal(t, 3, busy.Limit)
				assert.Equal(t, "k", busy.Key)
				assert.Equal(t, test.waited, busy.Waited)
				assert.Equal(t, test.isDone, busy.Done)
				assert.GreaterOrEqual(t, busy.RetryAfter, test.least)
				assert.LessOrEqual(t, busy.RetryAfter, test.most)
				assert.NoError(t, busy.Err)
				assert.Equal(t, test.outcome, told.Outcome)
				assert.Equal(t, "who", told.Holder)
				assert.Equal(t, test.waited > 0, told.Queued)
				assert.Equal(t, err, told.Err)
			}, guard.Observe(seen))
		})
	}
}

// A renewal shows who works under the grant by now.
func TestHold_ARenewalShowsWhoHasTheLock(t *testing.T) {
	s, handovers := &store{}, 0
	seen := &watcher{event: func(_ context.Context, e guard.Event) {
		if e.Kind == guard.Handover {
			handovers++
		}
	}}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		l := acquire(t, t.Context(), g, guard.Metadata("first"))
		next := make(chan *guard.Lease)
		go func() {
			l, err := g.Acquire(t.Context(), key, guard.Metadata("second"))
			assert.NoError(t, err)
			next <- l
		}()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Release(t.Context()))
		l = <-next
		time.Sleep(ttl / 2)
		synctest.Wait()
		_, _, renewals, releases := s.count()
		require.Positive(t, renewals)
		assert.Zero(t, releases, "it was handed over")
		assert.Equal(t, "second", s.renewals[renewals-1].Metadata)
		require.NoError(t, l.Release(t.Context()))
		assert.EqualValues(t, 1001, s.released()[0].Fence)
		assert.Equal(t, 1, handovers)
	}, guard.Observe(seen))
}

// The lease of a hold is over by the clock, and the watchdog did not get to it: it is kept by the context of another
// lease. The call that finds out first reports the loss, once.
func TestHold_ALossThatTheWatchdogHasNotReached(t *testing.T) {
	for name, find := range map[string]func(l *guard.Lease) error{
		"Err":     func(l *guard.Lease) error { return l.Err() },
		"Check":   func(l *guard.Lease) error { return l.Check(context.Background()) },
		"Release": func(l *guard.Lease) error { return l.Release(context.Background()) },
		"nested": func(l *guard.Lease) error {
			return guard.WithLock(context.WithoutCancel(l.Context()), key, func(context.Context) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var losses []guard.Event
			var ends []guard.HoldResult
			seen := &watcher{holdEnd: func(r guard.HoldResult) { ends = append(ends, r) }, event: func(_ context.Context, e guard.Event) {
				if e.Kind == guard.Loss {
					losses = append(losses, e)
				}
			}}
			s := &store{renew: func(int, guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Err: errUnanswered} }}
			inBubble(t, s, func(t *testing.T, g *guard.Guard) {
				keeps := &testenv.KeptContext{Context: t.Context()}
				other, err := g.Acquire(keeps, guard.Key("other"), guard.MaxHold(time.Second))
				require.NoError(t, err)
				goOn := keeps.Keep()
				l := acquire(t, t.Context(), g)
				time.Sleep(ttl)
				require.NoError(t, l.Context().Err(), "the watchdog is not kept")
				next := make(chan *guard.Lease, 1)
				go func() {
					l, err := g.Acquire(t.Context(), key)
					assert.NoError(t, err)
					next <- l
				}()
				synctest.Wait()
				is := find(l)
				require.ErrorIs(t, is, guard.ErrLost)
				require.NotErrorIs(t, is, guard.ErrReleased)
				synctest.Wait()
				require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
				require.Len(t, losses, 1)
				require.Len(t, ends, 1)
				assert.Equal(t, guard.OutcomeLost, ends[0].Outcome)
				require.Len(t, next, 1, "the next one is let in")
				require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
				require.ErrorIs(t, l.Err(), guard.ErrLost)
				require.NotErrorIs(t, l.Err(), guard.ErrReleased)
				require.Len(t, losses, 1)
				goOn()
				synctest.Wait()
				_ = other.Release(t.Context())
				_ = (<-next).Release(t.Context())
			}, guard.Observe(seen))
		})
	}
}

// Those in line after a lost hold go on at once, though its work does not end.
func TestHold_ALossLetsTheNextIn(t *testing.T) {
	s := &store{renew: func(n int, _ guardstore.Grant) guardstore.RenewReply { return guardstore.RenewReply{Held: n > 1} }}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		l := acquire(t, t.Context(), g)
		begun := time.Now()
		next := acquire(t, t.Context(), g)
		assert.LessOrEqual(t, time.Since(begun), ttl/3)
		assert.Greater(t, next.Fence(), l.Fence())
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		require.NoError(t, next.Release(t.Context()))
	})
}

// A renewal finds the hold revoked: that is the cause. One that fails is told of.
func TestHold_WhatRenewalsSay(t *testing.T) {
	replies := []guardstore.RenewReply{{Held: true}, {Err: errUnanswered}, {Revoked: true}}
	s := &store{renew: func(n int, _ guardstore.Grant) guardstore.RenewReply { return replies[n-1] }}
	var seen []guard.Event
	w := &watcher{event: func(_ context.Context, e guard.Event) { seen = append(seen, e) }}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		l := acquire(t, t.Context(), g)
		time.Sleep(ttl)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), guard.ErrRevoked)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrRevoked)
		require.Len(t, seen, 3)
		assert.Equal(t, guard.Event{Kind: guard.Renewal, Op: "renew"}, seen[0])
		assert.Equal(t, guard.Event{Kind: guard.StoreFailure, Op: "renew", Err: errUnanswered}, seen[1])
		assert.Equal(t, guard.Loss, seen[2].Kind)
	}, guard.Observe(w))
}

// The hold ends in good order while a nested call is still telling the store: no loss.
func TestHold_AHoldThatEndsWhileANestedCallLeaves(t *testing.T) {
	s := &store{depth: func(n int, _ guardstore.Grant) guardstore.RenewReply {
		if n == 2 {
			time.Sleep(time.Second)
		}
		return guardstore.RenewReply{Held: true}
	}}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		outer := acquire(t, t.Context(), g)
		inner := acquire(t, outer.Context(), g)
		left := make(chan error, 1)
		go func() { left <- inner.Release(t.Context()) }()
		synctest.Wait()
		require.Empty(t, left)
		require.NoError(t, outer.Release(t.Context()))
		require.NoError(t, <-left)
	})
}

// How a hold ended is told to observers, once.
func TestHold_HowAHoldEnded(t *testing.T) {
	for outcome, end := range map[string]func(t *testing.T, g *guard.Guard, l *guard.Lease){
		guard.OutcomeReleased: func(*testing.T, *guard.Guard, *guard.Lease) {},
		guard.OutcomeMaxHold:  func(_ *testing.T, _ *guard.Guard, l *guard.Lease) { <-l.Context().Done() },
		guard.OutcomeClosed: func(t *testing.T, g *guard.Guard, l *guard.Lease) {
			require.NoError(t, g.Close())
			require.ErrorIs(t, l.Err(), guard.ErrClosed)
		},
	} {
		var ends []guard.HoldResult
		w := &watcher{holdEnd: func(r guard.HoldResult) { ends = append(ends, r) }}
		inBubble(t, &store{}, func(t *testing.T, g *guard.Guard) {
			l := acquire(t, t.Context(), g, guard.MaxHold(time.Minute))
			time.Sleep(time.Second)
			end(t, g, l)
			_ = l.Release(t.Context())
			_ = l.Release(t.Context())
			synctest.Wait()
			require.Len(t, ends, 1)
			assert.Equal(t, outcome, ends[0].Outcome)
			assert.Equal(t, outcome == guard.OutcomeReleased, ends[0].Err == nil)
			assert.GreaterOrEqual(t, ends[0].Elapsed, time.Second)
		}, guard.Observe(w))
	}
}

// A caller that gives up while the lock is busy says both.
func TestHold_ACallerThatGivesUp(t *testing.T) {
	s := &store{acquire: func(int, guardstore.Claim) (guardstore.ClaimReply, error) {
		return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: ttl, Ticket: 7, Ahead: 3}, nil
	}}
	inBubble(t, s, func(t *testing.T, g *guard.Guard) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, errBroken)
		defer cancel()
		_, err := g.Acquire(ctx, key, guard.Wait(time.Minute))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errBroken)
		require.ErrorIs(t, err, guard.ErrBusy)
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, time.Second/2, busy.Waited)
	})
}
