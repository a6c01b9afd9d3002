package guard_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/guardhook"
)

func TestLock_WithLockReturnsTheWorksOwnError(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		assert.Same(t, errBoom, g.WithLock(t.Context(), k, func(ctx context.Context) error {
			assert.Equal(t, 1, g.s.Depth("k"))
			require.NoError(t, ctx.Err())
			return errBoom
		}))
		assert.Equal(t, 0, g.s.Depth("k"))
		n, err := guard.Do(t.Context(), g.Guard, k, func(context.Context) (int, error) { return 7, errBoom })
		assert.Equal(t, 7, n)
		assert.Same(t, errBoom, err)
	})
}

func TestLock_PanicAndGoexitReleaseAndGoOn(t *testing.T) {
	for name, run := range map[string]func(g *env, fn func(context.Context) error){
		"WithLock":  func(g *env, fn func(context.Context) error) { _ = g.WithLock(g.t.Context(), k, fn) },
		"WithLocks": func(g *env, fn func(context.Context) error) { _ = g.WithLocks(g.t.Context(), keysOf("a k"), fn) },
		"Lead":      func(g *env, fn func(context.Context) error) { _ = g.Lead(g.t.Context(), k, fn) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				assert.PanicsWithValue(t, "boom", func() { run(g, func(context.Context) error { panic("boom") }) })
				g.s.NoneHeld(t, "a k")
				done := make(chan struct{})
				go func() {
					defer close(done)
					run(g, func(context.Context) error { runtime.Goexit(); return nil })
					t.Error("Goexit was stopped")
				}()
				<-done
				g.s.NoneHeld(t, "a k")
			})
		})
	}
}

// tagging is an Observer that adds its name to the context of a start, and reads the one of an end.
type tagging struct {
	guard.NopObserver
	name string
	ends *[]string
}

func (o tagging) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	return withRequest(ctx, requestOf(ctx)+o.name)
}

func (o tagging) WaitEnd(ctx context.Context, _ guard.Lock, _ guard.WaitResult) {
	*o.ends = append(*o.ends, o.name+" of "+requestOf(ctx))
}

// Observers nest: the first is notified of a start first, and of an end last.
func TestObserver_SeveralNest(t *testing.T) {
	var ends []string
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.lock())
		assert.Equal(t, []string{"b of ab", "a of ab"}, ends)
	}, guard.Observe(tagging{name: "a", ends: &ends}), guard.Observe(tagging{name: "b", ends: &ends}))
}

// How a wait ended is observed, once for each call. A caller that does not wait has not waited, however slow the store is.
func TestWait_HowItEndedIsObserved(t *testing.T) {
	runOnce := func(g *env) error {
		_, _, err := guard.Once(g.t.Context(), g.Guard, guard.Key("once"), time.Hour, gives(1))
		return err
	}
	for outcome, call := range map[string]func(g *env) error{
		guard.OutcomeAcquired: func(g *env) error { return g.WithLock(g.t.Context(), guard.Key("free"), nothing) },
		guard.OutcomeBusy:     func(g *env) error { return g.lock(guard.NoWait()) },
		guard.OutcomeTimeout:  func(g *env) error { return g.lock(guard.Wait(time.Second)) },
		guard.OutcomeCanceled: func(g *env) error {
			ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
			defer cancel()
			return g.WithLock(ctx, k, nothing)
		},
		guard.OutcomeError: func(g *env) error {
			g.s.Fail(errDown)
			defer g.s.Fail(nil)
			return g.WithLock(g.t.Context(), guard.Key("free"), nothing)
		},
		guard.OutcomeClosed: func(g *env) error {
			time.AfterFunc(time.Second, func() { _ = g.Close() })
			return g.lock()
		},
		guard.OutcomeRecorded: runOnce,
	} {
		bubble(t, func(t *testing.T, g *env) {
			other := g.another()
			require.NoError(t, runOnce(other))
			l := other.take()
			g.s.Trouble(nil, only("acquire", slowly(10*time.Millisecond)))
			begun := time.Now()
			err := call(g)
			assert.Equal(t, outcome == guard.OutcomeAcquired || outcome == guard.OutcomeRecorded, err == nil, outcome)
			ends := g.r.Observations("WaitEnd")
			require.Len(t, ends, 1)
			assert.Equal(t, outcome, ends[0].Wait.Outcome)
			assert.Equal(t, time.Since(begun), ends[0].Wait.Elapsed)
			other.free(l)
		})
	}
}

func TestWait_OfACallerThatIsCanceled(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		l := other.take()
		ctx, cancel := context.WithCancel(t.Context())
		waiting := begin(func() error { return g.WithLock(ctx, k, never(t)) })
		cancel()
		require.ErrorIs(t, <-waiting, context.Canceled)
		assert.Equal(t, guard.OutcomeCanceled, g.r.Observations("WaitEnd")[0].Wait.Outcome)
		other.free(l)
	})
}

// What an observer learns of a lock, of a re-entry, and of a caller that waited for both.
func TestWait_AndHoldAreDescribedToObservers(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take(guard.Metadata("me"))
		inner := g.acquire(outer.Context(), "k")
		next := g.another()
		waited := next.later()
		time.Sleep(time.Second)
		g.free(inner, outer)
		l := <-waited
		next.free(l)
		synctest.Wait()
		var waits []guard.WaitResult
		var holds []guard.HoldResult
		for _, o := range append(g.r.Observations("WaitEnd", "HoldStart", "HoldEnd"), next.r.Observations("WaitEnd", "HoldEnd")...) {
			if o.Method == "WaitEnd" {
				waits = append(waits, o.Wait)
			} else {
				holds = append(holds, o.Hold)
			}
		}
		assert.Equal(t, []guard.WaitResult{
			{Outcome: guard.OutcomeAcquired, Depth: 1},
			{Outcome: guard.OutcomeAcquired, Depth: 2},
			{Outcome: guard.OutcomeAcquired, Depth: 1, Elapsed: time.Second, Queued: true, Holder: "me"},
		}, waits)
		first, second := guard.Hold{Fence: outer.Fence(), Depth: 1}, guard.Hold{Fence: outer.Fence(), Depth: 2}
		assert.Equal(t, []guard.HoldResult{
			{Hold: first},
			{Hold: second},
			{Hold: second, Outcome: guard.OutcomeReleased, Elapsed: time.Second},
			{Hold: first, Outcome: guard.OutcomeReleased, Elapsed: time.Second},
			{Hold: guard.Hold{Fence: l.Fence(), Depth: 1}, Outcome: guard.OutcomeReleased},
		}, holds)
	})
}

func TestReentry_ReleasedLeaseInAContextIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		var left, inner context.Context
		require.NoError(t, g.WithLock(t.Context(), k, func(ctx context.Context) error {
			left = context.WithoutCancel(ctx)
			require.NoError(t, g.WithLock(ctx, k, func(ctx context.Context) error { inner = ctx; return nil }))
			require.ErrorIs(t, context.Cause(inner), guard.ErrReleased, "it ends with its own work")
			return ctx.Err()
		}))
		calls := g.s.Calls("acquire")
		err := g.WithLock(left, k, never(t))
		require.ErrorIs(t, err, guard.ErrLost)
		require.ErrorIs(t, err, guard.ErrReleased)
		assert.Equal(t, calls, g.s.Calls("acquire"))
		_, held := guard.Held(left, guard.Key("k"))
		assert.False(t, held)
		require.NoError(t, g.WithLock(left, guard.Key("other"), nothing))
		detached := guard.Detach(canceled(withRequest(left, "kept")))
		assert.Equal(t, "kept", requestOf(detached))
		require.NoError(t, g.WithLock(detached, k, nothing))
	})
}

// Work under one Guard that locks its key by another Guard of the same store would wait for itself.
func TestReentry_TheKeyOfAnotherGuardIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other := g.another()
		for _, c := range []struct {
			outer, inner guard.LockOption
			want         error
		}{
			{nil, nil, guard.ErrOption},
			{guard.Shared(), nil, guard.ErrOption},
			{nil, guard.Shared(), guard.ErrOption},
			{guard.Shared(), guard.Shared(), nil},
			{guard.Limit(2), guard.Limit(2), nil},
		} {
			outer := g.take(c.outer)
			err := other.WithLock(outer.Context(), k, nothing, c.inner)
			require.ErrorIs(t, err, c.want)
			if c.want != nil {
				require.EqualError(t, err, "guard: ctx holds the key by another Guard of the same Redis and Prefix: the call would wait for itself")
			}
			require.NoError(t, guardtest.NewMemoryGuard(t).WithLock(outer.Context(), k, nothing), "another store")
			require.NoError(t, other.WithLock(outer.Context(), guard.Key("other"), nothing), "another key")
			g.free(outer)
			require.NoError(t, other.WithLock(context.WithoutCancel(outer.Context()), k, nothing, c.inner), "the lease was released")
		}
		outer := g.take()
		_, _, err := guard.Once(outer.Context(), other.Guard, k, time.Hour, noRun[int](t))
		require.ErrorContains(t, err, "by another Guard")
		g.free(outer)
	})
}

// byValue is a store that is no pointer, and cannot be compared.
type byValue struct {
	guardstore.Store
	_ func()
}

func TestReentry_StoresThatCannotBeComparedAreNotTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		one, other := testenv.GuardOnStore(t, byValue{Store: g.s}), testenv.GuardOnStore(t, byValue{Store: guardtest.NewStore()})
		require.NoError(t, one.WithLock(t.Context(), k, func(ctx context.Context) error { return other.WithLock(ctx, k, nothing) }))
	})
}

// A re-entry has the leases of the context that it came with.
func TestReentry_KeepsTheOtherLeasesOfItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.acquire(t.Context(), "outer")
		held := g.acquire(outer.Context(), "k")
		inner := g.acquire(held.Context(), "k")
		found, ok := guard.Held(inner.Context(), guard.Key("outer"))
		assert.True(t, ok)
		assert.Same(t, outer, found)
		assert.Equal(t, []*guard.Lease{inner, held, outer}, slices.Collect(guard.ExclusiveLeases(inner.Context())))
		g.free(inner, held, outer)
	})
}

func TestLease_CheckAsksTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take()
		deadline := l.Deadline()
		require.NoError(t, l.Check(t.Context()))
		assert.Equal(t, deadline, l.Deadline(), "it moves no expiry")
		g.s.Fail(errDown)
		require.ErrorIs(t, l.Check(t.Context()), guard.ErrStore)
		require.NoError(t, l.Err())
		g.s.Fail(nil)
		g.free(l)
		require.ErrorIs(t, l.Check(t.Context()), guard.ErrReleased)
		l = g.take()
		g.s.Drop("k")
		require.NoError(t, l.Err(), "no process knows")
		require.ErrorIs(t, l.Check(t.Context()), guard.ErrLost)
		require.ErrorIs(t, context.Cause(l.Context()), guard.ErrLost)
		asked := g.s.Calls("renew")
		require.ErrorIs(t, l.Check(t.Context()), guard.ErrLost)
		assert.Equal(t, asked, g.s.Calls("renew"), "a known loss is not asked for")
		_ = l.Release(t.Context())
	})
}

// The end of its context ends a Check that is not answered, and the lease stays. A lease that ends meanwhile was lost.
func TestLease_CheckThatIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.take(guard.MaxHold(3 * time.Second))
		g.s.Trouble(only("depth", silent), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Check(ctx), context.DeadlineExceeded)
		begun := time.Now()
		require.ErrorIs(t, l.Check(nil), guard.ErrStore) //nolint:staticcheck // it does not end
		assert.Equal(t, 2*time.Second, time.Since(begun))
		is(t, l.Check(t.Context()), guard.ErrMaxHold, guard.ErrStore)
		require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
	})
}

// A later Release waits for the result of the first one, for as long as its own context lives. So does the end
// of the work.
func TestLease_ALaterReleaseHasTheResultOfTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.Trouble(only("release", slowly(slowRelease)), nil)
		l := g.take()
		time.Sleep(time.Second)
		g.s.Drop("k")
		release := func() error { return l.Release(t.Context()) }
		first, second, third := begin(release), begin(release), begin(release)
		require.ErrorIs(t, l.Release(canceled(t.Context())), context.Canceled)
		begun := time.Now()
		for _, ended := range []chan error{first, second, third} {
			require.ErrorIs(t, <-ended, guard.ErrLost)
		}
		assert.Equal(t, slowRelease, time.Since(begun))
		require.ErrorIs(t, l.Release(canceled(t.Context())), guard.ErrLost, "the result is known")

		begun = time.Now()
		require.NoError(t, g.WithLock(t.Context(), k, func(ctx context.Context) error {
			lease, _ := guard.FromContext(ctx)
			begin(func() error { return lease.Release(t.Context()) })
			return nil
		}))
		assert.Equal(t, slowRelease, time.Since(begun))
	})
}

type requestID struct{}

func withRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestID{}, id)
}

func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestID{}).(string)
	return id
}

func TestMetadata_TheLaterMetadataCounts(t *testing.T) {
	fixed, perCall := guard.Metadata("fixed"), guard.MetadataFunc(requestOf)
	for name, test := range map[string]struct {
		guard []guard.Option
		call  []guard.LockOption
		want  string
	}{
		"the call's text before the Guard's function": {[]guard.Option{perCall}, []guard.LockOption{fixed}, "fixed"},
		"the Guard's text after its function":         {[]guard.Option{perCall, fixed}, nil, "fixed"},
		"the Guard's function after its text":         {[]guard.Option{fixed, perCall}, nil, "request"},
		"no text":                                     {[]guard.Option{perCall}, []guard.LockOption{guard.Metadata("")}, ""},
	} {
		bubble(t, func(t *testing.T, g *env) {
			defer g.free(g.acquire(withRequest(t.Context(), "request"), "k", test.call...))
			assert.Equal(t, test.want, g.busy().Holder, name)
			assert.Equal(t, "named", g.r.Observations("WaitEnd")[0].Lock.Name)
		}, append(test.guard, guard.Name("named"))...)
	}
}

const slowRelease = 100 * time.Millisecond

// A hand-over is an event. The window is 5 ms by default.
func TestHandover_IsAnEvent(t *testing.T) {
	for _, row := range []struct {
		window guard.Option
		age    time.Duration
		events int
	}{
		{nil, time.Millisecond, 1},
		{nil, 5*time.Millisecond - 1, 1},
		{nil, 5 * time.Millisecond, 0},
		{guard.HandoverWindow(time.Second), time.Second - 1, 1},
		{guard.HandoverWindow(time.Second), time.Second, 0},
		{guard.HandoverWindow(0), time.Millisecond, 0},
	} {
		bubble(t, func(t *testing.T, g *env) {
			first := g.take()
			second := begin(func() error { return g.lock() })
			time.Sleep(row.age)
			g.free(first)
			require.NoError(t, <-second)
			assert.Len(t, g.r.Events(guard.EventHandover), row.events, row.age)
		}, row.window)
	}
}

// A caller that finds the lock busy learns who got it last.
func TestHandover_NamesTheNextHolder(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		first := g.take(guard.Metadata("first"))
		second := g.later(guard.Metadata("second"))
		assert.Equal(t, "first", g.busy().Holder)
		time.Sleep(time.Millisecond)
		g.free(first)
		defer g.free(<-second)
		assert.Equal(t, "second", g.busy().Holder)
	})
}

// A MinHold keeps the key in the store after the work: a grant that is handed over cannot.
func TestHandover_NotToACallerWithAMinHold(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		first := g.take()
		second := begin(func() error { return g.lock(guard.MinHold(time.Minute)) })
		time.Sleep(time.Millisecond)
		g.free(first)
		require.NoError(t, <-second)
		assert.Empty(t, g.r.Events(guard.EventHandover))
		assert.True(t, g.busy().HeldOver)
	})
}

// onSecond is an Observer that does something when a lock is re-entered.
type onSecond struct {
	guard.NopObserver
	do func(ctx context.Context)
}

func (o onSecond) HoldStart(ctx context.Context, _ guard.Lock, h guard.Hold) context.Context {
	if h.Depth == 2 {
		o.do(ctx)
	}
	return ctx
}

// The store has counted the call in, and the hold is lost before its work begins.
func TestReentry_ALossMeanwhileKeepsTheWorkFromRunning(t *testing.T) {
	var lose func(ctx context.Context)
	bubble(t, func(t *testing.T, g *env) {
		outer := g.take()
		lose = func(ctx context.Context) {
			g.s.Drop("k")
			assert.ErrorIs(t, outer.Check(ctx), guard.ErrLost)
		}
		require.ErrorIs(t, g.WithLock(outer.Context(), k, never(t)), guard.ErrLost)
		require.ErrorIs(t, outer.Release(t.Context()), guard.ErrLost)
	}, guard.Observe(onSecond{do: func(ctx context.Context) { lose(ctx) }}))
}

// slowReleases runs a test on a Guard whose releases take a while to arrive.
func slowReleases(t *testing.T, test func(t *testing.T, g *env)) {
	t.Helper()
	bubble(t, func(t *testing.T, g *env) {
		g.s.Trouble(only("release", slowly(slowRelease)), nil)
		test(t, g)
	}, guard.AsyncRelease())
}

// Work that is done does not wait for its release, whatever it returned. Close sends the releases that are left.
func TestAsyncRelease_DoesNotWait(t *testing.T) {
	for name, work := range map[string]func(ctx context.Context, g *env, fn func(context.Context) error) error{
		"WithLock": func(ctx context.Context, g *env, fn func(context.Context) error) error { return g.WithLock(ctx, k, fn) },
		"WithLocks": func(ctx context.Context, g *env, fn func(context.Context) error) error {
			return g.WithLocks(ctx, keysOf("a k"), fn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			slowReleases(t, func(t *testing.T, g *env) {
				ctx, cancel := context.WithCancel(t.Context())
				var worked context.Context
				begun := time.Now()
				require.Equal(t, errBoom, work(ctx, g, func(ctx context.Context) error { worked = ctx; return errBoom }))
				cancel() // nor does the release end with its caller
				assert.Zero(t, time.Since(begun))
				require.ErrorIs(t, context.Cause(worked), guard.ErrReleased)
				assert.Equal(t, 1, g.s.Depth("k"), "the release is on its way")
				require.NoError(t, g.Close())
				assert.Equal(t, slowRelease, time.Since(begun))
				g.s.NoneHeld(t, "a k")
				assert.Empty(t, g.r.Observations("Event"))
			})
		})
	}
}

// The next call of the process waits for the release, and does not find the key busy.
func TestAsyncRelease_IsWaitedForByTheNextCall(t *testing.T) {
	slowReleases(t, func(t *testing.T, g *env) {
		for range 3 {
			require.NoError(t, g.lock(guard.NoWait()))
		}
	})
}

// A nested call, and one of several readers, pass nothing on: a caller that does not wait finds the key busy at once.
func TestAsyncRelease_ThatLeavesAHold(t *testing.T) {
	slowReleases(t, func(t *testing.T, g *env) {
		outer := g.take()
		require.NoError(t, g.WithLock(outer.Context(), k, nothing))
		begun := time.Now()
		_ = g.busy()
		assert.Zero(t, time.Since(begun))
		g.free(outer)
		reader := g.take(guard.Shared())
		require.NoError(t, g.lock(guard.Shared()))
		begun = time.Now()
		_ = g.busy()
		assert.Zero(t, time.Since(begun))
		g.free(reader)
	})
}

// A loss that only the release shows goes to the observers; a known loss is returned.
func TestAsyncRelease_ALossOnAnAsyncRelease(t *testing.T) {
	slowReleases(t, func(t *testing.T, g *env) {
		require.NoError(t, g.WithLock(t.Context(), k, func(context.Context) error { g.s.Drop("k"); return nil }))
		assert.Empty(t, g.r.Observations("HoldEnd"), "it has not ended")
		time.Sleep(2 * slowRelease)
		events := g.r.Events(guard.EventLoss)
		require.Len(t, events, 1)
		require.ErrorIs(t, events[0].Err, guard.ErrLost)
		assert.Equal(t, "release", events[0].Op)
		assert.Len(t, g.r.Observations("HoldEnd"), 1)
		require.ErrorIs(t, g.WithLock(t.Context(), k, func(ctx context.Context) error {
			g.s.Drop("k")
			return untilDone(ctx)
		}), guard.ErrLost)
	})
}

// An Observer that panics, or ends its goroutine, ends the call and nothing else: no lock stays taken, in the store or
// in the process, and Shutdown ends.
func TestObserverFault_AnObserverThatFailsLeavesNothingTaken(t *testing.T) {
	calls := map[string]func(g *env, kind guard.LockOption){
		"WithLock": func(g *env, kind guard.LockOption) { _ = g.lock(kind) },
		"nested": func(g *env, kind guard.LockOption) {
			_ = g.WithLock(g.t.Context(), k, func(ctx context.Context) error { return g.WithLock(ctx, k, nothing, kind) }, kind)
		},
		"WithLocks": func(g *env, kind guard.LockOption) { _ = g.WithLocks(g.t.Context(), keysOf("a b k"), nothing, kind) },
	}
	for name, call := range calls {
		for kind, option := range map[string]guard.LockOption{"exclusive": nil, "permit": guard.Limit(2), "reader": guard.Shared()} {
			for how, fault := range map[string]func(){"panic": func() { panic("fault") }, "Goexit": runtime.Goexit} {
				for _, method := range []string{"WaitStart", "WaitEnd", "HoldStart", "HoldEnd", guard.EventStoreFailure.String()} {
					for n := range int32(2) {
						t.Run(name+" "+kind+" "+how+" "+method, func(t *testing.T) {
							o := &faulty{method: method, fault: fault}
							o.n.Store(n + 1)
							bubble(t, func(t *testing.T, g *env) {
								if method == guard.EventStoreFailure.String() { // the caller's goroutine reports it
									g.s.Fail(errReply)
								}
								apart(func() { call(g, option) })
								o.n.Store(0)
								g.s.Fail(nil)
								for _, key := range keysOf("a b k") {
									require.NoError(t, g.WithLock(t.Context(), key, nothing, option, guard.Wait(time.Minute)))
								}
								g.s.NoneHeld(t, "a b k")
								assert.Empty(t, g.Holds())
								require.NoError(t, g.Shutdown(t.Context()))
							}, guard.Observe(o))
						})
					}
				}
			}
		}
	}
}

// faulty is an Observer that calls fault in the n-th call of one of its methods.
type faulty struct {
	guard.NopObserver
	method string
	n      atomic.Int32
	fault  func()
}

func (o *faulty) called(method string) {
	if method == o.method && o.n.Add(-1) == 0 {
		o.fault()
	}
}

func (o *faulty) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	o.called("WaitStart")
	return ctx
}

func (o *faulty) WaitEnd(context.Context, guard.Lock, guard.WaitResult) { o.called("WaitEnd") }

func (o *faulty) HoldStart(ctx context.Context, _ guard.Lock, _ guard.Hold) context.Context {
	o.called("HoldStart")
	return ctx
}

func (o *faulty) HoldEnd(context.Context, guard.Lock, guard.HoldResult) { o.called("HoldEnd") }

func (o *faulty) Event(_ context.Context, _ guard.Lock, e guard.Event) { o.called(e.Kind.String()) }

// apart runs a call on a goroutine that may panic, or end.
func apart(call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		call()
	}()
	<-done
}

// The holds of a Guard, the oldest first. Each reader of a claim has a time of its own, also in a Guard without an Observer.
func TestHolds_AreThoseOfThisGuard(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		plain, begun := &env{testenv.GuardOnStore(t, g.s), t, g.s, nil}, time.Now()
		assert.Empty(t, plain.Holds())
		l := plain.take(guard.Name("n"))
		b, a := plain.acquire(t.Context(), "b", guard.Shared()), plain.acquire(t.Context(), "a")
		inner, next := plain.inner(l), plain.later()
		time.Sleep(2 * time.Millisecond)
		reader := plain.acquire(t.Context(), "b", guard.Shared())
		all := plain.Holds()
		assert.Equal(t, guard.HoldInfo{
			Key: "k", Name: "n", Fence: l.Fence(), Since: begun, Deadline: l.Deadline(), Depth: 2, Waiting: 1,
		}, all[2])
		keys := ""
		for _, one := range all {
			keys += one.Key
		}
		assert.Equal(t, "abkb", keys)
		assert.Equal(t, 2*time.Millisecond, all[3].Since.Sub(all[1].Since))
		g.free(inner, l, a, b, reader)
		g.free(<-next)
		assert.Empty(t, plain.Holds())
	})
}

// MetadataFunc is asked once for each claim that has a key, and not for a re-entry. What it gives is checked, and its
// panic is the caller's.
func TestMetadata_FuncIsCalledOncePerClaim(t *testing.T) {
	calls := 0
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.WithLock(t.Context(), k, func(ctx context.Context) error {
			return errors.Join(g.WithLock(ctx, k, nothing), g.WithLock(ctx, guard.Key("another"), nothing))
		}))
		require.ErrorIs(t, g.WithLock(t.Context(), guard.Key(""), nothing), guard.ErrKey)
		assert.Equal(t, 2, calls)
		require.NoError(t, g.WithLocks(withRequest(t.Context(), "two"), keysOf("a b"), func(ctx context.Context) error {
			claim, _ := g.s.Last("b")
			assert.Equal(t, "two", claim.Metadata)
			return g.WithLocks(ctx, keysOf("a b"), nothing)
		}))
		assert.Equal(t, 3, calls)
		claimed := g.s.Calls("acquire")
		for text, why := range map[string]string{strings.Repeat("m", 256+1): "has 257 bytes, the most is 256", "\xff": "is not UTF-8"} {
			ctx := withRequest(t.Context(), text)
			for _, err := range []error{
				g.WithLock(ctx, k, never(t), guard.FailOpen()), g.WithLocks(ctx, keysOf("a b"), never(t)), g.Lead(ctx, k, never(t)),
			} {
				require.ErrorIs(t, err, guard.ErrOption)
				require.ErrorContains(t, err, "MetadataFunc "+why, text)
			}
		}
		assert.PanicsWithValue(t, "own", func() { _ = g.WithLock(withRequest(t.Context(), "panic"), k, nothing) })
		assert.Equal(t, claimed, g.s.Calls("acquire"))
		g.free(g.acquire(withRequest(t.Context(), strings.Repeat("m", 256)), "k"))
		require.NoError(t, g.Shutdown(t.Context()), "nothing was begun")
	}, guard.MetadataFunc(func(ctx context.Context) string {
		if requestOf(ctx) == "panic" {
			panic("own")
		}
		calls++
		return requestOf(ctx)
	}))
}

// The Guard of the package's functions is the one in ctx, else that of the lock that ctx holds, else the default.
func TestLock_PackageLevelGuard(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		held := func(context.Context) error { assert.Equal(t, 1, g.s.Depth("k")); return nil }
		outer := g.acquire(t.Context(), "outer")
		defer g.free(outer)
		guard.SetDefault(guardtest.NewMemoryGuard(t))
		defer guard.SetDefault(nil)
		require.NoError(t, guard.WithLock(guard.WithGuard(t.Context(), g.Guard), k, held))
		require.NoError(t, guard.WithLock(outer.Context(), k, held))
		assert.Same(t, g.Guard, guardhook.GuardFor(outer.Context()))
		guard.SetDefault(g.Guard)
		n, err := guard.Do(t.Context(), nil, k, func(ctx context.Context) (int, error) { return 1, held(ctx) })
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

func TestHeld_TakesTheKeyFuncOfTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		l := g.acquire(t.Context(), "account:a%3Ab")
		defer g.free(l)
		found, held := guard.Held(l.Context(), guard.Keyf("account:%s", "a:b"))
		assert.True(t, held && found == l)
		failing := func(context.Context) (string, error) { return l.Key(), errBoom }
		for _, key := range []guard.KeyFunc{guard.Keyf("account:%s:%s", "a", "b"), nil, failing} {
			_, held = guard.Held(l.Context(), key)
			assert.False(t, held)
		}
	})
}
