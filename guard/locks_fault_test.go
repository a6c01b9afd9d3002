package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// troubled is a Store on which a test has things happen at a step: op and key of a call.
type troubled struct {
	*guardtest.Store
	mu     sync.Mutex
	before func(ctx context.Context, op, key string) error // the store does not see the call
	after  func(ctx context.Context, op, key string) error // the reply is lost
}

var errReply = errors.New("reply lost")

func (s *troubled) trouble(before, after func(ctx context.Context, op, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *troubled) call(ctx context.Context, op, key string, do func()) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, op, key); err != nil {
			return err
		}
	}
	do()
	if after != nil {
		return after(ctx, op, key)
	}
	return nil
}

func (s *troubled) Acquire(ctx context.Context, c guardstore.Claim) (r guardstore.ClaimReply, err error) {
	if lost := s.call(ctx, "acquire", c.Key, func() { r, err = s.Store.Acquire(ctx, c) }); lost != nil {
		return guardstore.ClaimReply{}, lost
	}
	return r, err
}

func (s *troubled) Release(ctx context.Context, c guardstore.Release) (r guardstore.ReleaseReply, err error) {
	if lost := s.call(ctx, "release", c.Key, func() { r, err = s.Store.Release(ctx, c) }); lost != nil {
		return guardstore.ReleaseReply{}, lost
	}
	return r, err
}

// Renew is that of a re-entry if it moves no expiry.
func (s *troubled) Renew(ctx context.Context, batch []guardstore.Grant) (r []guardstore.RenewReply) {
	if batch[0].TTL > 0 {
		return s.Store.Renew(ctx, batch)
	}
	if lost := s.call(ctx, "depth", batch[0].Key, func() { r = s.Store.Renew(ctx, batch) }); lost != nil {
		return []guardstore.RenewReply{{Err: lost}}
	}
	return r
}

// times lets what happens at a step happen n times.
func times(n int, wantOp, wantKey string, happen func() error) func(context.Context, string, string) error {
	var mu sync.Mutex
	return func(_ context.Context, op, key string) error {
		mu.Lock()
		hit := op == wantOp && key == wantKey && n > 0
		if hit {
			n--
		}
		mu.Unlock()
		if hit {
			return happen()
		}
		return nil
	}
}

// inTrouble runs test on a troubled store, in virtual time, with "z" held by the work, and
// looks at the end whether anything stayed: at once, unless something is settled behind the
// caller.
func inTrouble(t *testing.T, name string, test func(t *testing.T, s *troubled, g *guard.Guard, ctx context.Context)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &troubled{Store: guardtest.NewStore()}
			g, err := guard.NewWithStore(s)
			require.NoError(t, err)
			err = g.WithLock(t.Context(), guard.Key("z"), func(ctx context.Context) error {
				test(t, s, g, ctx)
				return nil
			})
			if !errors.Is(err, guard.ErrClosed) {
				require.NoError(t, err)
			}
			s.trouble(nil, nil)
			time.Sleep(10 * time.Second) // less than the ttl
			noneHeld(t, s.Store, "a b c z")
			require.NoError(t, g.Close())
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
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, s *troubled, g *guard.Guard, ctx context.Context) {
			lost := 0
			s.trouble(nil, times(2, step.op, step.key, func() error { lost++; return errReply }))
			ran := 0
			require.NoError(t, g.WithLocks(ctx, keysOf("c z b a"), func(context.Context) error { ran++; return nil }))
			assert.Equal(t, 1, ran)
			assert.Equal(t, 2, lost)
			noneHeld(t, s.Store, "a b c")
		})
	}
}

func TestLocksFault_AKeyThatIsNotAnsweredGivesTheOthersBack(t *testing.T) {
	for _, step := range steps[:4] {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, s *troubled, g *guard.Guard, ctx context.Context) {
			s.trouble(nil, times(1000, step.op, step.key, func() error { return errReply }))
			err := g.WithLocks(ctx, keysOf("c z b a"), func(context.Context) error { t.Error("ran"); return nil })
			var failure *guard.StoreError
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, step.key, failure.Key)
			require.NotErrorIs(t, err, guard.ErrLost)
			for _, key := range []string{"a", "b", "c"} {
				if key != step.key {
					assert.Equal(t, 0, s.Depth(key), "%s is given back when the call returns", key)
				}
			}
		})
	}
}

func TestLocksFault_AContextThatEndsAtAnyStepTakesNothing(t *testing.T) {
	why := errors.New("the client is gone")
	for _, step := range steps[:4] {
		for when, lost := range map[string]error{"sent": nil, "reply lost": errReply} {
			inTrouble(t, step.op+" "+step.key+" "+when, func(t *testing.T, s *troubled, g *guard.Guard, ctx context.Context) {
				ctx, cancel := context.WithCancelCause(ctx)
				s.trouble(nil, times(1, step.op, step.key, func() error { cancel(why); return lost }))
				err := g.WithLocks(ctx, keysOf("c z b a"), func(context.Context) error { t.Error("ran"); return nil })
				if step.op == "depth" && err == nil {
					t.Error("re-entered under a context that is over")
				}
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, why)
				require.NotErrorIs(t, err, guard.ErrBusy)
				require.NotErrorIs(t, err, guard.ErrLost)
				synctest.Wait()
				noneHeld(t, s.Store, "a b c")
			})
		}
	}
}

func TestLocksFault_CloseAtAnyStepTakesNothing(t *testing.T) {
	for _, step := range steps[:4] {
		inTrouble(t, step.op+" "+step.key, func(t *testing.T, s *troubled, g *guard.Guard, ctx context.Context) {
			closed := make(chan error, 1)
			s.trouble(times(1, step.op, step.key, func() error {
				go func() { closed <- g.Close() }()
				time.Sleep(time.Millisecond)
				return nil
			}), nil)
			err := g.WithLocks(ctx, keysOf("c z b a"), func(context.Context) error { t.Error("ran"); return nil })
			require.ErrorIs(t, err, guard.ErrClosed)
			require.NotErrorIs(t, err, guard.ErrBusy)
			require.NotErrorIs(t, err, context.Canceled)
			require.NoError(t, <-closed)
		})
	}
}

func TestLocksFault_AKeyThatIsLostWhileAnotherIsWaitedForIsTheOnlyError(t *testing.T) {
	for _, key := range []string{"a", "b", "z"} {
		for name, opts := range map[string][]guard.LockOption{"renewed": nil, "bounded": {guard.Wait(20 * time.Second)}} {
			t.Run(key+" "+name, func(t *testing.T) {
				testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
					other, err := guard.NewWithStore(s)
					require.NoError(t, err)
					defer func() { require.NoError(t, other.Close()) }()
					blocks, err := other.Acquire(t.Context(), guard.Key("c"))
					require.NoError(t, err)
					outer, err := g.Acquire(t.Context(), guard.Key("z"))
					require.NoError(t, err)
					time.AfterFunc(time.Second, func() { s.Drop(key) })
					err = g.WithLocks(outer.Context(), keysOf("c z b a"), func(context.Context) error { t.Error("ran"); return nil }, opts...)
					lost, bare := err.(*guard.LostError) //nolint:errorlint // alone
					require.True(t, bare, "%T: %v", err, err)
					assert.Equal(t, key, lost.Key)
					require.NotErrorIs(t, err, guard.ErrBusy)
					require.NotErrorIs(t, err, context.Canceled)
					synctest.Wait()
					noneHeld(t, s, "a b")
					ends := r.Observations("WaitEnd")
					last := ends[len(ends)-1]
					assert.Equal(t, guard.OutcomeCanceled, last.Wait.Outcome)
					assert.Equal(t, err, last.Wait.Err)
					_ = outer.Release(t.Context())
					require.NoError(t, blocks.Release(t.Context()))
				})
			})
		}
	}
}

// A lock that is nested by hand, too, says that the outer one was lost, and nothing else.
func TestLocksFault_ANestedLockWhoseOuterLockIsLost(t *testing.T) {
	for name, inner := range map[string]func(ctx context.Context, g *guard.Guard) error{
		"waits": func(ctx context.Context, g *guard.Guard) error {
			return g.WithLock(ctx, guard.Key("taken"), testenv.Nothing)
		},
		"waits under a context of its own": func(ctx context.Context, g *guard.Guard) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return g.WithLock(ctx, guard.Key("taken"), testenv.Nothing)
		},
		"waits in the queue": func(ctx context.Context, g *guard.Guard) error {
			own, err := g.Acquire(ctx, guard.Key("own"))
			if err != nil {
				return err
			}
			defer func() { _ = own.Release(ctx) }()
			return g.WithLock(ctx, guard.Key("own in the queue"), testenv.Nothing)
		},
		"comes later": func(ctx context.Context, g *guard.Guard) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("free"), testenv.Nothing)
		},
		"comes later, to a busy one": func(ctx context.Context, g *guard.Guard) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("taken"), testenv.Nothing, guard.NoWait())
		},
		"re-enters another one": func(ctx context.Context, g *guard.Guard) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("outermost"), testenv.Nothing)
		},
		"re-enters the lost one": func(ctx context.Context, g *guard.Guard) error {
			<-ctx.Done()
			return g.WithLock(ctx, guard.Key("outer"), testenv.Nothing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
				other, err := guard.NewWithStore(s)
				require.NoError(t, err)
				defer func() { require.NoError(t, other.Close()) }()
				_, err = other.Acquire(t.Context(), guard.Key("taken"))
				require.NoError(t, err)
				_, err = g.Acquire(t.Context(), guard.Key("own in the queue"))
				require.NoError(t, err)
				err = g.WithLock(t.Context(), guard.Key("outermost"), func(ctx context.Context) error {
					return g.WithLock(ctx, guard.Key("outer"), func(ctx context.Context) error {
						time.AfterFunc(time.Second, func() { s.Drop("outer") })
						err := inner(ctx, g)
						lost, bare := err.(*guard.LostError) //nolint:errorlint // alone
						require.True(t, bare, "%T: %v", err, err)
						assert.Equal(t, "outer", lost.Key)
						return err
					})
				})
				require.ErrorIs(t, err, guard.ErrLost)
				require.NotErrorIs(t, err, guard.ErrBusy)
				require.NotErrorIs(t, err, context.Canceled)
			})
		})
	}
}

func TestLocksFault_ANestedLockWhoseGuardClosesIsToldSo(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		outer, err := g.Acquire(t.Context(), guard.Key("outer"))
		require.NoError(t, err)
		_, err = g.Acquire(t.Context(), guard.Key("taken"))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _ = g.Close() })
		err = g.WithLock(outer.Context(), guard.Key("taken"), testenv.Nothing)
		assert.Equal(t, guard.ErrClosed, err)
	})
}

// What the caller's own context ended with is no loss.
func TestLocksFault_ANestedLockWhoseCallerLeavesIsNotLost(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		outer, err := g.Acquire(t.Context(), guard.Key("outer"))
		require.NoError(t, err)
		_, err = g.Acquire(t.Context(), guard.Key("taken"))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(outer.Context(), time.Second)
		defer cancel()
		err = g.WithLock(ctx, guard.Key("taken"), testenv.Nothing)
		require.ErrorIs(t, err, guard.ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, guard.ErrLost)
		require.NoError(t, outer.Release(t.Context()))
	})
}

// Releases that nobody answers go out beside each other: they cost what one costs.
func TestLocksFault_ReleasesThatAreNotAnsweredGoBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: guardtest.NewStore()}
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		var mu sync.Mutex
		asked := map[string]time.Duration{}
		var start time.Time
		silent := func(ctx context.Context, op, key string) error {
			if op != "release" {
				return nil
			}
			mu.Lock()
			if _, known := asked[key]; !known {
				asked[key] = time.Since(start)
			}
			mu.Unlock()
			end, _ := ctx.Deadline()
			time.Sleep(time.Until(end))
			return errReply
		}
		for name, give := range map[string]func(ctx context.Context, ls *guard.Leases) error{
			"Release": func(ctx context.Context, ls *guard.Leases) error { return ls.Release(ctx) },
			"Release, context over": func(ctx context.Context, ls *guard.Leases) error {
				return ls.Release(canceled(ctx))
			},
		} {
			s.trouble(nil, nil)
			ls, err := g.AcquireAll(t.Context(), manyKeys(64))
			require.NoError(t, err)
			clear(asked)
			s.trouble(silent, nil)
			start = time.Now()
			err = give(t.Context(), ls)
			took := time.Since(start)
			require.Error(t, err, name)
			assert.LessOrEqual(t, took, guard.DefaultStoreTimeout+100*time.Millisecond, name)
			synctest.Wait()
			mu.Lock()
			assert.Len(t, asked, 64, "each was sent")
			assert.Less(t, asked["key:063"], time.Millisecond, name)
			assert.LessOrEqual(t, asked["key:000"], 60*time.Millisecond, name)
			mu.Unlock()
			s.trouble(nil, nil)
			time.Sleep(20 * time.Second) // repeated until the deadline, which is later
			for key := range asked {
				assert.Equal(t, 0, s.Depth(key))
			}
		}

		// WithLocks waits as long as WithLock does.
		start = time.Now()
		err = g.WithLocks(t.Context(), manyKeys(64), func(context.Context) error {
			s.trouble(silent, nil)
			return nil
		})
		require.NoError(t, err, "no error of the work")
		assert.LessOrEqual(t, time.Since(start), guard.DefaultStoreTimeout+100*time.Millisecond)
		s.trouble(nil, nil)
		time.Sleep(20 * time.Second)
		require.NoError(t, g.Close())
	})
}

// One release that is not answered does not keep the others taken.
func TestLocksFault_AReleaseThatIsNotAnsweredDoesNotKeepTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{Store: guardtest.NewStore()}
		g, err := guard.NewWithStore(s)
		require.NoError(t, err)
		ls, err := g.AcquireAll(t.Context(), keysOf("a b c"))
		require.NoError(t, err)
		s.trouble(func(ctx context.Context, op, key string) error {
			if op == "release" && key == "c" {
				end, _ := ctx.Deadline()
				time.Sleep(time.Until(end))
				return errReply
			}
			return nil
		}, nil)
		released := make(chan error, 1)
		go func() { released <- ls.Release(t.Context()) }()
		time.Sleep(60 * time.Millisecond)
		noneHeld(t, s.Store, "a b")
		assert.Equal(t, 1, s.Depth("c"))
		require.ErrorIs(t, ls.Release(canceled(t.Context())), context.Canceled, "the second one waits for the first")
		err = <-released
		var failure *guard.StoreError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "c", failure.Key)
		s.trouble(nil, nil)
		time.Sleep(20 * time.Second)
		noneHeld(t, s.Store, "a b c")
		require.NoError(t, g.Close())
	})
}
