package guard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
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

// manyKeys gives n different keys.
func manyKeys(n int) (keys []guard.KeyFunc) {
	for i := range n {
		keys = append(keys, guard.Key(fmt.Sprintf("key:%03d", i)))
	}
	return keys
}

// sequence gives the keys of what a Recorder saw of a method, in order.
func (g *env) sequence(method string) string {
	var keys []string
	for _, o := range g.r.Observations(method) {
		keys = append(keys, o.Lock.Key)
	}
	return strings.Join(keys, " ")
}

// holdAll takes several keys until release is called; that must succeed.
func (g *env) holdAll(keys string, opts ...guard.LockOption) (held context.Context, release func() error) {
	g.t.Helper()
	begun, leave := make(chan context.Context, 1), make(chan struct{})
	ended := begin(func() error {
		return g.WithLocks(g.t.Context(), keysOf(keys), func(ctx context.Context) error {
			begun <- ctx
			<-leave
			return nil
		}, opts...)
	})
	select {
	case held = <-begun:
	case err := <-ended:
		require.FailNow(g.t, "the locks were not taken", "%v", err)
	}
	return held, func() error { close(leave); return <-ended }
}

// lostAlone checks that an error is the loss of a key, and nothing else.
func lostAlone(t *testing.T, err error, key string) {
	t.Helper()
	lost, bare := err.(*guard.LostError) //nolint:errorlint // alone
	require.True(t, bare, "%T: %v", err, err)
	assert.Equal(t, key, lost.Key)
	is(t, err, guard.ErrLost, guard.ErrBusy, context.Canceled)
}

func TestLocks_AreTakenInOrderAndGivenBackInReverse(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		assert.Same(t, errBoom, g.WithLocks(t.Context(), keysOf("c B a é a"), func(ctx context.Context) error {
			for _, key := range []string{"B", "a", "c", "é"} {
				_, ok := guard.Held(ctx, guard.Key(key))
				require.True(t, ok, key)
				assert.Equal(t, 1, g.s.Depth(key))
			}
			last, _ := guard.Held(ctx, guard.Key("é"))
			fence, _ := guard.Fence(ctx)
			assert.Equal(t, last.Fence(), fence, "of the last lock that was taken")
			return errBoom
		}, guard.Name("transfer")))
		assert.Equal(t, "B a c é", g.sequence("HoldStart"), "by their bytes, each once")
		assert.Equal(t, "é c a B", g.sequence("HoldEnd"))
		g.s.NoneHeld(t, "B a c é")
	})
}

// Where it is not one Redis, one release goes out at a time, if it is answered in time.
func TestLocks_AreReleasedOneAfterAnother(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		var releasing atomic.Int32
		g.s.Trouble(only("release", func(context.Context) error {
			assert.EqualValues(t, 1, releasing.Add(1))
			time.Sleep(10 * time.Millisecond)
			releasing.Add(-1)
			return nil
		}), nil)
		begun := time.Now()
		require.NoError(t, g.WithLocks(t.Context(), keysOf("a b c"), nothing))
		assert.Equal(t, 30*time.Millisecond, time.Since(begun))
	})
}

func TestLocks_RefusesBadRequests(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		failing := func(context.Context) (string, error) { return "", errBoom }
		for names, row := range map[string]struct {
			ctx  context.Context
			keys []guard.KeyFunc
			is   error
		}{
			"keys is empty: give 1 to 64":                {t.Context(), nil, guard.ErrOption},
			"keys has 65 different keys, the most is 64": {t.Context(), manyKeys(65), guard.ErrOption},
			"no key function at index 1":                 {t.Context(), []guard.KeyFunc{guard.Key("a"), nil}, guard.ErrKey},
			"boom":                                       {t.Context(), append(keysOf("a"), failing), errBoom},
			"empty":                                      {t.Context(), append(keysOf("a"), guard.Key("")), guard.ErrKey},
			"ctx is nil":                                 {nil, keysOf("a b"), guard.ErrOption},
			"canceled":                                   {canceled(t.Context()), keysOf("a b"), context.Canceled},
		} {
			err := g.WithLocks(row.ctx, row.keys, never(t))
			require.ErrorIs(t, err, row.is)
			require.ErrorContains(t, err, names)
		}
		assert.Zero(t, g.s.Calls("acquire"), "nothing was sent")
		require.NoError(t, g.WithLocks(t.Context(), append(manyKeys(64), manyKeys(64)...), nothing), "64 different ones")
	})
}

func TestLocks_KeysThatAreHeldComeFirst(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		z := g.acquire(t.Context(), "z")
		require.NoError(t, g.WithLocks(z.Context(), keysOf("a z m"), func(ctx context.Context) error {
			assert.Equal(t, 2, g.s.Depth("z"))
			assert.Equal(t, 1, g.s.Depth("a"))
			innermost, _ := guard.FromContext(ctx)
			assert.Equal(t, "m", innermost.Key())
			return nil
		}, guard.MaxHold(time.Second)))
		time.Sleep(2 * time.Second)
		require.NoError(t, z.Err(), "the cap is not for a key that was held before")
		require.NoError(t, g.WithLocks(z.Context(), keysOf("z"), nothing))
		g.free(z)
		assert.Equal(t, "z z a m z", g.sequence("HoldStart"))
		g.s.NoneHeld(t, "a m z")
	})
}

// One Wait is for all keys. When it is used up, each key that is left is tried once.
func TestLocks_OneBudgetForAllKeys(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		a, b := g.acquire(t.Context(), "a"), g.acquire(t.Context(), "b", guard.Metadata("payroll"))
		time.AfterFunc(700*time.Millisecond, func() { g.free(a) })
		start := time.Now()
		busy := as[*guard.BusyError](t, g.WithLocks(t.Context(), keysOf("a b c"), never(t), guard.Wait(time.Second)))
		assert.Equal(t, []string{"b", "payroll", "lock_wait_timeout"}, []string{busy.Key, busy.Holder, busy.ErrorType()})
		assert.InDelta(t, time.Second, time.Since(start), float64(5*time.Millisecond), "not a second for each")
		assert.InDelta(t, time.Second, busy.Waited, float64(5*time.Millisecond))
		g.s.NoneHeld(t, "a c")
		time.AfterFunc(999*time.Millisecond, func() { g.free(b) })
		require.NoError(t, g.WithLocks(t.Context(), keysOf("b c d"), nothing, guard.Wait(time.Second)))
		g.s.NoneHeld(t, "b c d")
	})
}

func TestLocks_NoWaitTriesEachOnce(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.acquire(t.Context(), "c")
		start := time.Now()
		err := g.WithLocks(t.Context(), keysOf("d c b a"), never(t), guard.NoWait())
		busy := as[*guard.BusyError](t, err)
		assert.Equal(t, []string{"c", "lock_busy"}, []string{busy.Key, busy.ErrorType()})
		assert.Zero(t, time.Since(start))
		g.s.NoneHeld(t, "a b d")
		assert.Equal(t, "b a", g.sequence("HoldEnd"), "in reverse")
	})
}

// MaxHold of all begins with the work.
func TestLocks_TheCapOfAllBeginsWithTheWork(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		b := g.acquire(t.Context(), "b")
		time.AfterFunc(3*time.Second, func() { g.free(b) })
		err := g.WithLocks(t.Context(), keysOf("a b"), func(ctx context.Context) error {
			started := time.Now()
			<-ctx.Done()
			assert.Equal(t, 2*time.Second, time.Since(started))
			require.ErrorIs(t, context.Cause(ctx), guard.ErrMaxHold)
			for _, key := range []string{"a", "b"} {
				_, held := guard.Held(ctx, guard.Key(key))
				assert.False(t, held, "%s is over, too", key)
				assert.Equal(t, 1, g.s.Depth(key), "%s stays taken until the work returns", key)
			}
			return nil
		}, guard.MaxHold(2*time.Second))
		require.ErrorIs(t, err, guard.ErrMaxHold)
		g.s.NoneHeld(t, "a b")
		assert.Equal(t, 2, strings.Count(err.Error(), "was lost"), "of both, joined")
		require.NoError(t, g.WithLocks(t.Context(), keysOf("a b"), func(ctx context.Context) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		}, guard.MaxHold(guard.Forever)))
	})
}

// Several locks are held when their work begins, by the clock, whatever the watchdog has come to.
func TestLocksLoss_NoWorkBeginsUnderALeaseThatLapsedWhileAnotherKeyWasWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		b := g.another().acquire(t.Context(), "b")
		goOn := g.keepWatchdog()
		ended := begin(func() error {
			return g.WithLocks(t.Context(), keysOf("a b"), never(t), guard.TTL(2*time.Second))
		})
		time.Sleep(3 * time.Second)
		require.Empty(t, ended, "the watchdog is not kept")
		g.free(b)
		synctest.Wait()
		goOn()
		require.ErrorIs(t, <-ended, guard.ErrLost)
	})
}

// FailOpen runs the work when all is given back. It is for a lock that cannot be had: neither for a busy one, nor for a
// key that ctx holds, and that the store does not confirm.
func TestLocks_FailOpenOnlyAfterAllIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		b := g.another().acquire(t.Context(), "b")
		time.AfterFunc(time.Second, func() { g.s.Fail(errDown) })
		ran := false
		require.NoError(t, g.WithLocks(t.Context(), keysOf("a b"), func(ctx context.Context) error {
			ran = true
			_, held := guard.Held(ctx, guard.Key("a"))
			assert.False(t, held)
			assert.Equal(t, "a", g.sequence("HoldEnd"), "given back before")
			return nil
		}, guard.FailOpen(), guard.Name("both")))
		assert.True(t, ran)
		require.NoError(t, g.WithLocks(t.Context(), keysOf("a b"), nothing, guard.FailOpen(), guard.Limit(3)))
		events := g.r.Observations("Event")
		assert.EqualValues(t, 3, events[len(events)-1].Lock.Limit)
		at := slices.IndexFunc(events, func(o guardtest.Observation) bool { return o.Event.Kind == guard.EventFailedOpen })
		require.GreaterOrEqual(t, at, 0)
		opened := events[at] // a call in the background may fail after it
		failure := as[*guard.StoreError](t, opened.Event.Err)
		assert.Equal(t, guard.Lock{Name: "both", Key: failure.Key}, opened.Lock)
		begun := time.Now()
		require.NoError(t, g.WithLocks(t.Context(), keysOf("a b"), nothing, guard.FailOpen()))
		assert.Zero(t, time.Since(begun), "the outage is known")
		g.s.Fail(nil)
		time.Sleep(time.Second)
		require.ErrorIs(t, g.WithLocks(t.Context(), keysOf("a b"), never(t), guard.FailOpen(), guard.NoWait()), guard.ErrBusy)
		g.free(b)
		g.s.NoneHeld(t, "a b")

		z := g.acquire(t.Context(), "z")
		g.s.Trouble(times(1000, "depth", "z", func() error { return errReply }), nil)
		for _, err := range []error{
			g.WithLocks(z.Context(), keysOf("a z"), never(t), guard.FailOpen()),
			g.WithLock(z.Context(), guard.Key("z"), never(t), guard.FailOpen()),
		} {
			assert.Equal(t, "z", as[*guard.StoreError](t, err).Key)
			assert.Equal(t, "enter", as[*guard.StoreError](t, err).Op)
		}
		g.s.Trouble(nil, nil)
		time.Sleep(time.Minute)
		require.NoError(t, z.Err(), "it stays")
		assert.Equal(t, 1, g.s.Depth("z"))
		g.free(z)
	})
}

// MinHold counts from the grant of each key: the first one was had while the second one was waited for. A lock that the context held before has what its own call said.
func TestLocksKinds_MinHoldOfSeveralKeysCountsFromTheGrantOfEach(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		const near = float64(100 * time.Millisecond)
		other := g.another()
		b := other.acquire(t.Context(), "b")
		begun := time.Now()
		ended := begin(func() error {
			return g.WithLocks(t.Context(), keysOf("b a"), func(context.Context) error { return errBoom }, guard.MinHold(10*time.Second))
		})
		time.Sleep(4 * time.Second)
		g.free(b)
		require.Same(t, errBoom, <-ended)
		for _, key := range []string{"a", "b"} {
			assert.True(t, as[*guard.BusyError](t, other.WithLocks(t.Context(), keysOf(key), nothing, guard.NoWait())).HeldOver, key)
		}
		other.keptFor("a")
		assert.InDelta(t, 10*time.Second, time.Since(begun), near, "since a was had")
		other.keptFor("b")
		assert.InDelta(t, 14*time.Second, time.Since(begun), near, "since b was had")

		d := g.acquire(t.Context(), "d")
		require.NoError(t, g.WithLocks(d.Context(), keysOf("c d"), nothing, guard.MinHold(time.Second)))
		g.free(d)
		assert.Zero(t, other.keptFor("d"), "the outer call asked for nothing")
		assert.InDelta(t, time.Second, other.keptFor("c"), near)
	})
}

func TestLocks_TheLossOfAnyEndsTheWork(t *testing.T) {
	for _, key := range []string{"a", "b", "c"} {
		bubble(t, func(t *testing.T, g *env) {
			lose := func(own func(ctx context.Context) error) error {
				return g.WithLocks(t.Context(), keysOf("a b c"), func(ctx context.Context) error {
					g.s.Drop(key)
					<-ctx.Done()
					return own(ctx)
				})
			}
			lostAlone(t, lose(context.Cause), key)
			err := lose(func(context.Context) error { return errBoom })
			require.ErrorIs(t, err, errBoom)
			assert.Equal(t, key, as[*guard.LostError](t, err).Key)
			assert.Equal(t, 1, strings.Count(err.Error(), "was lost"))
			g.s.NoneHeld(t, "a b c")
			synctest.Wait() // observers hear last
			assert.Len(t, g.r.Observations("HoldEnd"), 6)
		})
	}
}

// The limit is one of each key, and a call is inside of all or of none.
func TestLocksKinds_LimitOfSeveralKeys(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		two := guard.Limit(2)
		_, first := g.holdAll("a b", two)
		_, second := g.another().holdAll("b c", two)
		busy := as[*guard.BusyError](t, g.WithLocks(t.Context(), keysOf("a b"), never(t), two, guard.NoWait()))
		assert.Equal(t, "b", busy.Key)
		assert.EqualValues(t, 2, busy.Limit)
		held, third := g.holdAll("a d", two)
		assert.EqualValues(t, 2, g.r.Observations("HoldStart")[3].Lock.Limit)
		_, fenced := guard.Fence(held)
		assert.False(t, fenced)
		require.NoError(t, errors.Join(first(), second(), third()))
		g.s.NoneHeld(t, "a b c d")
	})
}

// Callers of several Guards take 1 to 3 of 6 keys at once, in any order: each is served, and no caller
// is inside of a key beside another one. REDLATCH_SEVERAL_FOR says for how long (make several FOR=1m).
func TestSeveral_KeysOfSeveralGuards(t *testing.T) {
	t.Parallel()
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("REDLATCH_SEVERAL_FOR"), "300ms"))
	require.NoError(t, err)
	patient := guard.StoreTimeout(30 * time.Second) // a busy machine is no outage
	keys := manyKeys(6)
	s, q := redistest.Start(t), testenv.NewQuorumEnv(t, 3)
	for name, made := range map[string]func(t *testing.T) *guard.Guard{
		"one":    func(t *testing.T) *guard.Guard { return testenv.GuardOn(t, s.Client(t), patient) },
		"quorum": func(t *testing.T) *guard.Guard { return q.Guard(t, patient) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inside := make([]atomic.Int32, len(keys))
			var callers sync.WaitGroup
			end := time.Now().Add(lasts)
			for range 3 {
				g := made(t)
				for range 12 {
					callers.Go(func() {
						for first := true; first || time.Now().Before(end); first = false {
							some := rand.Perm(len(keys))[:1+rand.IntN(3)]
							var wanted []guard.KeyFunc
							for _, i := range some {
								wanted = append(wanted, keys[i])
							}
							assert.NoError(t, g.WithLocks(t.Context(), wanted, func(context.Context) error {
								for _, i := range some {
									assert.EqualValues(t, 1, inside[i].Add(1), "two are inside of one key")
								}
								time.Sleep(time.Millisecond)
								for _, i := range some {
									inside[i].Add(-1)
								}
								return nil
							}, guard.Wait(2*time.Minute)))
						}
					})
				}
			}
			callers.Wait()
			left := made(t)
			testenv.Eventually(t, func() bool { return left.WithLocks(t.Context(), keys, nothing, guard.NoWait()) == nil }, "a lock is left behind")
		})
	}
}
