package guard_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// faulty is an Observer that calls fault in the n-th call of one of its methods.
type faulty struct {
	guard.NopObserver
	method string
	n      int
	fault  func()
}

func (o *faulty) called(method string) {
	if method == o.method {
		if o.n--; o.n == 0 {
			o.fault()
		}
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

// An Observer that panics, or ends its goroutine, ends the call and nothing else: no lock stays
// taken, in the store or in the process, and Shutdown ends.
func TestObserverFault_AnObserverThatFailsLeavesNothingTaken(t *testing.T) {
	calls := map[string]func(ctx context.Context, g *guard.Guard, kind ...guard.LockOption){
		"WithLock": func(ctx context.Context, g *guard.Guard, kind ...guard.LockOption) {
			_ = g.WithLock(ctx, guard.Key("a"), testenv.Nothing, kind...)
		},
		"nested": func(ctx context.Context, g *guard.Guard, kind ...guard.LockOption) {
			_ = g.WithLock(ctx, guard.Key("a"), func(ctx context.Context) error {
				return g.WithLock(ctx, guard.Key("a"), testenv.Nothing, kind...)
			}, kind...)
		},
		"WithLocks": func(ctx context.Context, g *guard.Guard, kind ...guard.LockOption) {
			_ = g.WithLocks(ctx, keysOf("a b c"), testenv.Nothing, kind...)
		},
	}
	kinds := map[string][]guard.LockOption{"exclusive": nil, "permit": {guard.Limit(2)}, "reader": {guard.Shared()}}
	faults := map[string]func(){"panic": func() { panic("fault") }, "Goexit": runtime.Goexit}
	for name, call := range calls {
		for kind, options := range kinds {
			for how, fault := range faults {
				for _, method := range []string{"WaitStart", "WaitEnd", "HoldStart", "HoldEnd"} {
					for n := 1; n <= 2; n++ {
						t.Run(name+" "+kind+" "+how+" "+method, func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								s := guardtest.NewStore()
								o := &faulty{method: method, n: n, fault: fault}
								g, err := guard.NewWithStore(s, guard.Observe(o))
								require.NoError(t, err)
								apart(func() { call(t.Context(), g, options...) })
								o.method = ""
								noneHeld(t, s, "a b c")
								assert.Empty(t, g.Leases())
								for _, key := range keysOf("a b c") {
									require.NoError(t, g.WithLock(t.Context(), key, testenv.Nothing, guard.NoWait()))
								}
								require.NoError(t, g.Shutdown(t.Context()))
							})
						})
					}
				}
			}
		}
	}
}

// A failure of the store is told by the caller's goroutine: an Observer that panics there takes
// the claim of nobody else with it.
func TestObserverFault_AnObserverThatFailsWhileTheStoreDoesKeepsNobodyWaiting(t *testing.T) {
	for how, fault := range map[string]func(){"panic": func() { panic("fault") }, "Goexit": runtime.Goexit} {
		for kind, options := range map[string][]guard.LockOption{"exclusive": nil, "permit": {guard.Limit(2)}, "reader": {guard.Shared()}} {
			t.Run(kind+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := guardtest.NewStore()
					g, err := guard.NewWithStore(s, guard.Observe(&faulty{method: guard.StoreFailure.String(), n: 1, fault: fault}))
					require.NoError(t, err)
					s.Fail(errReply)
					apart(func() { _ = g.WithLock(t.Context(), guard.Key("a"), testenv.Nothing, options...) })
					s.Fail(nil)
					require.NoError(t, g.WithLock(t.Context(), guard.Key("a"), testenv.Nothing, append(options, guard.Wait(time.Minute))...))
					require.NoError(t, g.Shutdown(t.Context()))
				})
			})
		}
	}
}

// slowToHear is an Observer that takes its time over the first loss.
type slowToHear struct {
	guard.NopObserver
	told atomic.Bool
	goOn chan struct{}
}

func (o *slowToHear) Event(_ context.Context, _ guard.Lock, e guard.Event) {
	if e.Kind == guard.Loss && !o.told.Swap(true) {
		<-o.goOn
	}
}

// An Observer that does not return keeps no work going on whose lease is over: neither that of
// leases that end with the one it is told of, nor that of later ones.
func TestObserverFault_AnObserverThatBlocksKeepsNoOtherWorkGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &slowToHear{goOn: make(chan struct{})}
		g := guardtest.NewGuard(t, guard.Observe(o))
		var leases []*guard.Lease
		for i, ttl := range []time.Duration{time.Second, time.Second, 2 * time.Second} {
			l, err := g.Acquire(t.Context(), guard.Keyf("%d", i), guard.FixedLease(), guard.TTL(ttl))
			require.NoError(t, err)
			leases = append(leases, l)
		}
		time.Sleep(3 * time.Second)
		for _, l := range leases {
			require.ErrorIs(t, context.Cause(l.Context()), guard.ErrMaxHold)
		}
		close(o.goOn)
		for _, l := range leases {
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrLost)
		}
	})
}
