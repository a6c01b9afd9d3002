package guard_test

import (
	"context"
	"errors"
	"strings"
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

// inTrouble runs test while "z" is held, and checks that nothing stays, at the latest when the asynchronous commands have ended.
func inTrouble(t *testing.T, name string, test func(t *testing.T, g *env, ctx context.Context)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		bubble(t, func(t *testing.T, g *env) {
			z := g.acquire(t.Context(), "z")
			test(t, g, z.Context())
			if err := z.Release(t.Context()); !errors.Is(err, guard.ErrClosed) {
				require.NoError(t, err)
			}
			g.s.Trouble(nil, nil)
			time.Sleep(10 * time.Second) // less than the ttl
			g.s.NoneHeld(t, "a b c z")
		})
	})
}

// steps are what WithLocks sends to take the keys a, b, c and z, of which z is held.
var steps = []struct{ op, key string }{
	{"depth", "z"},
	{"acquire", "a"},
	{"acquire", "b"},
	{"acquire", "c"},
}

func TestLocksFault_AKeyThatIsNotAnsweredGivesTheOthersBack(t *testing.T) {
	for _, step := range steps {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, g *env, ctx context.Context) {
			g.s.Trouble(nil, times(1000, step.op, step.key, func() error { return errReply }))
			err := g.WithLocks(ctx, keysOf("c z b a"), never(t))
			assert.Equal(t, step.key, as[*guard.StoreError](t, err).Key)
			require.NotErrorIs(t, err, guard.ErrLost)
			g.s.NoneHeld(t, strings.Replace("a b c", step.key, "", 1))
		})
	}
}

func TestLocksFault_AContextThatEndsAtAnyStepTakesNothing(t *testing.T) {
	for _, step := range steps {
		for when, lost := range map[string]error{"sent": nil, "reply lost": errReply} {
			inTrouble(t, step.op+" "+step.key+" "+when, func(t *testing.T, g *env, ctx context.Context) {
				ctx, cancel := context.WithCancelCause(ctx)
				g.s.Trouble(nil, times(1, step.op, step.key, func() error { cancel(errBoom); return lost }))
				err := g.WithLocks(ctx, keysOf("c z b a"), never(t))
				is(t, err, context.Canceled, guard.ErrBusy, guard.ErrLost)
				require.ErrorIs(t, err, errBoom)
				synctest.Wait()
				g.s.NoneHeld(t, "a b c")
			})
		}
	}
}

func TestLocksFault_CloseAtAnyStepTakesNothing(t *testing.T) {
	for _, step := range steps {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, g *env, ctx context.Context) {
			closed := make(chan error, 1)
			g.s.Trouble(times(1, step.op, step.key, func() error {
				go func() { closed <- g.Close() }()
				time.Sleep(time.Millisecond)
				return nil
			}), nil)
			is(t, g.WithLocks(ctx, keysOf("c z b a"), never(t)), guard.ErrClosed, guard.ErrBusy, context.Canceled)
			require.NoError(t, <-closed)
		})
	}
}

// A call under a lock that is lost returns that loss, and nothing else.
func TestLocksFault_ANestedLockWhoseOuterLockIsLost(t *testing.T) {
	for name, inner := range map[string]func(ctx context.Context, g *env) error{
		"waits": func(ctx context.Context, g *env) error { return g.WithLock(ctx, guard.Key("taken"), nothing) },
		"waits for some time": func(ctx context.Context, g *env) error {
			return g.WithLock(ctx, guard.Key("taken"), nothing, guard.Wait(time.Minute))
		},
		"waits for one of several": func(ctx context.Context, g *env) error { return g.WithLocks(ctx, keysOf("a outer taken"), nothing) },
		"comes later": func(ctx context.Context, g *env) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("free"), nothing)
		},
		"re-enters another one": func(ctx context.Context, g *env) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("outermost"), nothing)
		},
		"re-enters the lost one": func(ctx context.Context, g *env) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("outer"), nothing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				g.another().acquire(t.Context(), "taken")
				outermost := g.acquire(t.Context(), "outermost")
				err := g.WithLock(outermost.Context(), guard.Key("outer"), func(ctx context.Context) error {
					time.AfterFunc(time.Second, func() { g.s.Drop("outer") })
					err := inner(ctx, g)
					lostAlone(t, err, "outer")
					ends := g.r.Observations("WaitEnd")
					assert.Equal(t, err, ends[len(ends)-1].Wait.Err)
					return err
				})
				is(t, err, guard.ErrLost, guard.ErrBusy, context.Canceled)
				synctest.Wait()
				g.s.NoneHeld(t, "a free")
			})
		})
	}
}

// What the caller's own context ended with is no loss, and a Guard that closes says so.
func TestLocksFault_ANestedLockWhoseCallerLeavesIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.acquire(t.Context(), "outer")
		g.take()
		ctx, cancel := context.WithTimeoutCause(outer.Context(), time.Second, errBoom)
		defer cancel()
		err := g.WithLock(ctx, k, nothing)
		is(t, err, context.DeadlineExceeded, guard.ErrLost)
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, time.Second, as[*guard.BusyError](t, err).Waited)
		time.AfterFunc(time.Second, func() { _ = g.Close() })
		assert.Equal(t, guard.ErrClosed, g.WithLock(outer.Context(), k, nothing))
	})
}

// One release that is not answered does not keep the others taken.
func TestLocksFault_AReleaseThatIsNotAnsweredDoesNotKeepTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		_, release := g.holdAll("a b c")
		g.s.Trouble(func(ctx context.Context, op, key string) error {
			if op == "release" && key == "c" {
				<-ctx.Done()
				return errReply
			}
			return nil
		}, nil)
		released := begin(release)
		time.Sleep(60 * time.Millisecond)
		g.s.NoneHeld(t, "a b")
		assert.Equal(t, 1, g.s.Depth("c"))
		require.NoError(t, <-released, "the release is repeated")
		g.s.Trouble(nil, nil)
		time.Sleep(20 * time.Second)
		g.s.NoneHeld(t, "a b c")
	})
}

// heldOf gives those of the keys that an owner holds.
func heldOf(t *testing.T, r *testenv.Env, keys string) (held string) {
	t.Helper()
	for _, key := range keys {
		if r.Depth(t, string(key)) != "" {
			held += string(key)
		}
	}
	return held
}

// On one Redis, free keys are taken and given back at the same time: none waits for the answer to another one.
func TestLocksFree_FreeKeysAreTakenAndGivenBackAtTheSameTime(t *testing.T) {
	t.Parallel()
	var seen guardtest.Recorder
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute), guard.Observe(&seen))
	for _, row := range []struct{ script, first, held string }{
		{"acquire", "a", "bcd"}, {"acquire", "c", "abd"}, {"release", "a", "a"}, {"release", "c", "c"},
	} {
		kept, land := r.HoldBack(testenv.Both(testenv.RunsScript(t, row.script), redistest.Contains(testenv.LockOf(row.first))))
		called := time.Now()
		done := testenv.InBackground(func() error { return r.WithLocks(t.Context(), keysOf("a b c d"), nothing) })
		testenv.Await(t, kept)
		asked := time.Now()
		testenv.Eventually(t, func() bool { return heldOf(t, r, "abcd") == row.held }, "the others wait for it")
		least := time.Since(asked)
		land(t)
		require.NoError(t, done(t))
		if ends := seen.Observations("WaitEnd"); row.script == "acquire" {
			for _, end := range ends[len(ends)-4:] {
				assert.GreaterOrEqual(t, end.Wait.Elapsed, least, "the wait for each began when all were asked for")
				assert.Less(t, end.Wait.Elapsed, time.Since(called)+time.Second)
			}
		}
		testenv.Eventually(t, func() bool { return heldOf(t, r, "abcd") == "" }, "something is held")
	}
}

// An Observer fails when the first of several free keys was got: the others are given back, too.
func TestLocksFree_AnObserverThatPanics(t *testing.T) {
	t.Parallel()
	o := &faulty{method: "WaitEnd", fault: func() { panic("fault") }}
	r := testenv.New(t, redistest.Start(t), guard.Observe(o))
	o.n.Store(1)
	apart(func() { _ = r.WithLocks(t.Context(), keysOf("a b c"), never(t)) })
	testenv.Eventually(t, func() bool { return heldOf(t, r, "abc") == "" }, "something is held")
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestLocksFree_NoWaitTriesABusyKeyOnce(t *testing.T) {
	t.Parallel()
	var free func()
	o := &faulty{method: "WaitStart", fault: func() { free() }}
	r := testenv.New(t, redistest.Start(t), guard.Observe(o))
	free = r.TakenByAnother(t, "a")
	o.n.Store(1)
	require.ErrorIs(t, r.WithLocks(t.Context(), keysOf("a b"), never(t), guard.NoWait()), guard.ErrBusy)
	require.NoError(t, r.WithLocks(t.Context(), keysOf("a b"), nothing, guard.NoWait()), "it was free before the call returned")
}

// What comes after a key that is waited for is free for everybody meanwhile, and taken in order then. A key that ctx holds
// is re-entered, and the others have claims of their own.
func TestLocksFree_NothingIsHeldAfterAKeyThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	outer, err := r.Acquire(t.Context(), guard.Key("own"))
	require.NoError(t, err)
	for i, busy := range []string{"a", "b", "d"} {
		free := r.TakenByAnother(t, busy)
		done := testenv.InBackground(func() error {
			return r.WithLocks(outer.Context(), keysOf("a b c d own"), func(ctx context.Context) error {
				assert.Equal(t, "abcd", heldOf(t, r, "abcd"))
				for _, key := range []string{"a", "b", "c", "d", "own"} {
					_, held := guard.Held(ctx, guard.Key(key))
					assert.True(t, held, key)
				}
				assert.Equal(t, "2", r.Depth(t, "own"))
				return nil
			}, guard.MinHold(time.Millisecond))
		})
		testenv.Eventually(t, func() bool { return len(r.Queue(t, busy)) == 1 }, "it does not wait")
		assert.Equal(t, []string{"a", "ab", "abcd"}[i], heldOf(t, r, "abcd"))

		free()
		require.NoError(t, done(t))
	}
	require.NoError(t, outer.Release(t.Context()))
}

// A key that was got although one before it is busy is free when the call returns, however long its release takes.
func TestLocksLoss_KeysAfterABusyKeyAreFreeWhenTheCallReturns(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	defer r.TakenByAnother(t, "a")()
	kept, goOn := r.Proxy.HoldRequest(testenv.Both(testenv.RunsScript(t, "release"), redistest.Contains(testenv.LockOf("b"))))
	held := make(chan string, 1)
	go func() {
		assert.ErrorIs(t, r.WithLocks(t.Context(), keysOf("a b"), nothing, guard.NoWait()), guard.ErrBusy)
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
