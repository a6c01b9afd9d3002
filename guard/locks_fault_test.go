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
			g.s.trouble(nil, nil)
			time.Sleep(10 * time.Second) // less than the ttl
			g.s.noneHeld(t, "a b c z")
		})
	})
}

// steps are what WithLocks sends for the keys a, b, c and z, of which z is held.
var steps = []struct{ op, key string }{
	{"depth", "z"},
	{"acquire", "a"},
	{"acquire", "b"},
	{"acquire", "c"},
	{"release", "c"},
	{"release", "b"},
	{"release", "a"},
}

func TestLocksFault_AReplyThatIsLostAtAnyStepIsMadeUpFor(t *testing.T) {
	for _, step := range steps {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, g *env, ctx context.Context) {
			lost, ran := 0, 0
			g.s.trouble(nil, times(2, step.op, step.key, func() error { lost++; return errReply }))
			require.NoError(t, g.WithLocks(ctx, keysOf("c z b a"), func(context.Context) error { ran++; return nil }))
			assert.Equal(t, 1, ran)
			assert.Equal(t, 2, lost)
			g.s.noneHeld(t, "a b c")
		})
	}
}

func TestLocksFault_AKeyThatIsNotAnsweredGivesTheOthersBack(t *testing.T) {
	for _, step := range steps[:4] {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, g *env, ctx context.Context) {
			g.s.trouble(nil, times(1000, step.op, step.key, func() error { return errReply }))
			err := g.WithLocks(ctx, keysOf("c z b a"), never(t))
			assert.Equal(t, step.key, as[*guard.StoreError](t, err).Key)
			require.NotErrorIs(t, err, guard.ErrLost)
			g.s.noneHeld(t, strings.Replace("a b c", step.key, "", 1))
		})
	}
}

func TestLocksFault_AContextThatEndsAtAnyStepTakesNothing(t *testing.T) {
	for _, step := range steps[:4] {
		for when, lost := range map[string]error{"sent": nil, "reply lost": errReply} {
			inTrouble(t, step.op+" "+step.key+" "+when, func(t *testing.T, g *env, ctx context.Context) {
				ctx, cancel := context.WithCancelCause(ctx)
				g.s.trouble(nil, times(1, step.op, step.key, func() error { cancel(errBoom); return lost }))
				err := g.WithLocks(ctx, keysOf("c z b a"), never(t))
				is(t, err, context.Canceled, guard.ErrBusy, guard.ErrLost)
				require.ErrorIs(t, err, errBoom)
				synctest.Wait()
				g.s.noneHeld(t, "a b c")
			})
		}
	}
}

func TestLocksFault_CloseAtAnyStepTakesNothing(t *testing.T) {
	for _, step := range steps[:4] {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, g *env, ctx context.Context) {
			closed := make(chan error, 1)
			g.s.trouble(times(1, step.op, step.key, func() error {
				go func() { closed <- g.Close() }()
				time.Sleep(time.Millisecond)
				return nil
			}), nil)
			is(t, g.WithLocks(ctx, keysOf("c z b a"), never(t)), guard.ErrClosed, guard.ErrBusy, context.Canceled)
			require.NoError(t, <-closed)
		})
	}
}

func TestLocksFault_AKeyThatIsLostWhileAnotherIsWaitedForIsTheOnlyError(t *testing.T) {
	for _, key := range []string{"a", "b", "z"} {
		for _, opt := range []guard.LockOption{nil, guard.Wait(20 * time.Second)} {
			bubble(t, func(t *testing.T, g *env) {
				c, z := g.another().acquire(t.Context(), "c"), g.acquire(t.Context(), "z")
				time.AfterFunc(time.Second, func() { g.s.Drop(key) })
				err := g.WithLocks(z.Context(), keysOf("c z b a"), never(t), opt)
				lostAlone(t, err, key)
				synctest.Wait()
				g.s.noneHeld(t, "a b")
				ends := g.r.Observations("WaitEnd")
				last := ends[len(ends)-1]
				assert.Equal(t, guard.OutcomeCanceled, last.Wait.Outcome)
				assert.Equal(t, err, last.Wait.Err)
				_ = z.Release(t.Context())
				g.free(c)
			})
		}
	}
}

// A lock that is nested by hand, too, says that the outer one was lost, and nothing else.
func TestLocksFault_ANestedLockWhoseOuterLockIsLost(t *testing.T) {
	for name, inner := range map[string]func(ctx context.Context, g *env) error{
		"waits": func(ctx context.Context, g *env) error { return g.WithLock(ctx, guard.Key("taken"), nothing) },
		"waits in the queue": func(ctx context.Context, g *env) error {
			own := g.acquire(ctx, "own")
			defer func() { _ = own.Release(ctx) }()
			return g.WithLock(ctx, guard.Key("own in the queue"), nothing)
		},
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
				g.acquire(t.Context(), "own in the queue")
				outermost := g.acquire(t.Context(), "outermost")
				err := g.WithLock(outermost.Context(), guard.Key("outer"), func(ctx context.Context) error {
					time.AfterFunc(time.Second, func() { g.s.Drop("outer") })
					err := inner(ctx, g)
					lostAlone(t, err, "outer")
					return err
				})
				is(t, err, guard.ErrLost, guard.ErrBusy, context.Canceled)
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
		g.s.trouble(func(ctx context.Context, op, key string) error {
			if op == "release" && key == "c" {
				<-ctx.Done()
				return errReply
			}
			return nil
		}, nil)
		released := begin(release)
		time.Sleep(60 * time.Millisecond)
		g.s.noneHeld(t, "a b")
		assert.Equal(t, 1, g.s.Depth("c"))
		require.NoError(t, <-released, "the release is repeated")
		g.s.trouble(nil, nil)
		time.Sleep(20 * time.Second)
		g.s.noneHeld(t, "a b c")
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
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	for _, row := range []struct{ script, first, held string }{
		{"acquire", "a", "bcd"}, {"acquire", "c", "abd"}, {"release", "a", "a"}, {"release", "c", "c"},
	} {
		kept, land := r.HoldBack(testenv.Both(testenv.RunsScript(t, row.script), redistest.Contains(testenv.LockOf(row.first))))
		done := testenv.InBackground(func() error { return r.WithLocks(t.Context(), keysOf("a b c d"), nothing) })
		testenv.Await(t, kept)
		testenv.Eventually(t, func() bool { return heldOf(t, r, "abcd") == row.held }, "the others wait for it")
		land(t)
		require.NoError(t, done(t))
		testenv.Eventually(t, func() bool { return heldOf(t, r, "abcd") == "" }, "something is held")
	}
}

// A key that ctx holds is re-entered, and the others have claims of their own.
func TestLocksFree_BesideAKeyThatIsHeld(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t))
	b, err := r.Acquire(t.Context(), guard.Key("b"))
	require.NoError(t, err)
	require.NoError(t, r.WithLocks(b.Context(), keysOf("a b c"), func(ctx context.Context) error {
		for key, depth := range map[string]string{"a": "1", "b": "2", "c": "1"} {
			l, held := guard.Held(ctx, guard.Key(key))
			assert.True(t, held && l.Key() == key, key)
			assert.Equal(t, depth, r.Depth(t, key), key)
		}
		return nil
	}))
	require.NoError(t, b.Release(t.Context()))
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

// What comes after a key that is waited for is free for everybody meanwhile, and taken in order then.
func TestLocksFree_NothingIsHeldAfterAKeyThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t), guard.StoreTimeout(time.Minute))
	for i, busy := range []string{"a", "b", "d"} {
		free := r.TakenByAnother(t, busy)
		done := testenv.InBackground(func() error {
			return r.WithLocks(t.Context(), keysOf("a b c d"), func(ctx context.Context) error {
				assert.Equal(t, "abcd", heldOf(t, r, "abcd"))
				for _, key := range []string{"a", "b", "c", "d"} {
					_, held := guard.Held(ctx, guard.Key(key))
					assert.True(t, held, key)
				}
				return nil
			}, guard.MinHold(time.Millisecond))
		})
		testenv.Eventually(t, func() bool { return len(r.Queue(t, busy)) == 1 }, "it does not wait")
		assert.Equal(t, []string{"a", "ab", "abcd"}[i], heldOf(t, r, "abcd"))

		free()
		require.NoError(t, done(t))
	}
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
