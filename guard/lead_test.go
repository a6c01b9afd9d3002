package guard_test

import (
	"cmp"
	"context"
	"errors"
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

var errDone = errors.New("done")

// A leader pauses after its term, also if MaxHold ended it, so that another can win. An error of its own ends Lead.
func TestLead_ALeaderAloneStandsAgainAfterAPause(t *testing.T) {
	for _, maxHold := range []time.Duration{0, time.Second} {
		bubble(t, func(t *testing.T, g *env) {
			terms := 0
			var end time.Time
			assert.Same(t, errBoom, g.Lead(t.Context(), k, func(ctx context.Context) error {
				lease, ok := guard.Held(ctx, guard.Key("k"))
				require.True(t, ok)
				require.NoError(t, lease.Err())
				if terms++; terms > 1 {
					assert.LessOrEqual(t, time.Since(end), time.Second)
					assert.GreaterOrEqual(t, time.Since(end), 100*time.Millisecond)
				}
				if terms == 20 {
					return errBoom
				}
				if maxHold > 0 {
					<-ctx.Done()
				}
				end = time.Now()
				return context.Cause(ctx)
			}, guard.NoWait(), guard.Name("n"), guard.Limit(1), guard.MaxHold(maxHold)))
			assert.Equal(t, 20, terms)
			assert.Equal(t, 0, g.s.Depth("k"))
			assert.Equal(t, "n", g.r.Observations("HoldStart")[0].Lock.Name)
		})
	}
}

func TestLead_ALostTermIsFollowedByAnotherWhateverItReturned(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, cancel := context.WithCancel(t.Context())
		fences := []uint64{0}
		require.ErrorIs(t, g.Lead(ctx, k, func(ctx context.Context) error {
			fence, _ := guard.Fence(ctx)
			assert.Greater(t, fence, fences[len(fences)-1])
			if fences = append(fences, fence); len(fences) == 4 {
				cancel()
				return nil
			}
			g.s.Drop("k")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
			return errors.New("half of the work is undone")
		}), context.Canceled)
		synctest.Wait() // observers hear last
		assert.Len(t, g.r.Events(guard.EventLoss), 2)
	})
}

func TestLead_PausesGrowWhileTheStoreIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		g.s.Fail(&guardstore.RefusedError{Err: errDown})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Lead(ctx, k, never(t)), context.DeadlineExceeded, "the end of ctx ends a pause")
		before := len(g.r.Observations("WaitEnd"))
		time.AfterFunc(5*time.Minute, func() { g.s.Fail(nil) })
		require.Same(t, errDone, g.Lead(t.Context(), k, func(context.Context) error { return errDone }))
		waits := g.r.Observations("WaitEnd")[before:]
		failed := len(waits) - 1
		assert.Less(t, failed, 5*60/5+12, "5 to 10 s between tries")
		assert.Greater(t, failed, 5*60/11)
		for _, o := range waits[:failed] {
			assert.ErrorIs(t, o.Wait.Err, guard.ErrStore)
		}
	})
}

func TestLead_TheEndOfTheContextEndsALeaderAndACandidate(t *testing.T) {
	why := errors.New("why")
	for name, row := range map[string]struct {
		own    error // of fn
		joined bool
	}{
		"the end":    {context.Canceled, false},
		"the cause":  {why, false},
		"a deadline": {context.DeadlineExceeded, false},
		"a loss":     {guard.ErrLost, false},
		"closed":     {guard.ErrClosed, false},
		"of its own": {errBoom, true},
	} {
		bubble(t, func(t *testing.T, g *env) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var candidate chan error
			err := g.Lead(ctx, k, func(held context.Context) error {
				candidate = begin(func() error { return g.Lead(ctx, k, never(t)) })
				cancel(why)
				<-held.Done()
				require.ErrorIs(t, context.Cause(held), why)
				assert.Equal(t, 1, g.s.Depth("k"), "fn is waited for")
				return row.own
			})
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, err, why, name)
			assert.Equal(t, row.joined, strings.Contains(err.Error(), "\n"+row.own.Error()), name)
			is(t, <-candidate, context.Canceled, guard.ErrBusy)
			synctest.Wait() // the candidate's claim is withdrawn
			g.s.NoneHeld(t, "k")
		})
	}
}

// A process that is about to exit gives its release 50 ms to reach Redis: the next leader waits for it.
func TestLead_TheReleaseOfTheLastTermIsWaitedFor(t *testing.T) {
	for _, row := range []struct {
		answer, want time.Duration
		own          error // nil = ctx ends
	}{
		{10 * time.Millisecond, 10 * time.Millisecond, nil},
		{100 * time.Millisecond, 50 * time.Millisecond, nil},
		{100 * time.Millisecond, 100 * time.Millisecond, errDone},
	} {
		bubble(t, func(t *testing.T, g *env) {
			g.s.Trouble(only("release", slowly(row.answer)), nil)
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			require.ErrorIs(t, g.Lead(ctx, k, func(context.Context) error {
				if row.own == nil {
					cancel()
				}
				return row.own
			}), cmp.Or(row.own, context.Canceled))
			cancel()
			assert.Equal(t, row.want, time.Since(begun))
			assert.Equal(t, row.want != row.answer, g.s.Depth("k") == 1)
			time.Sleep(time.Second)
			g.s.NoneHeld(t, "k")
		})
	}
}

// Shutdown waits for leases, and a leader would keep it waiting for ever.
func TestLead_ShutdownAndCloseEndLead(t *testing.T) {
	for _, row := range []struct {
		end func(context.Context, *guard.Guard) error
		own error
	}{
		{func(ctx context.Context, g *guard.Guard) error { return g.Shutdown(ctx) }, guard.ErrClosed},
		{func(_ context.Context, g *guard.Guard) error { return g.Close() }, context.Canceled},
		{func(ctx context.Context, g *guard.Guard) error { return g.Shutdown(ctx) }, nil},
	} {
		bubble(t, func(t *testing.T, g *env) {
			leads := begin(func() error {
				return g.Lead(t.Context(), k, func(ctx context.Context) error {
					<-ctx.Done()
					assert.ErrorIs(t, context.Cause(ctx), guard.ErrClosed)
					return row.own
				})
			})
			fails := begin(func() error {
				return g.Lead(t.Context(), guard.Key("fails"), func(ctx context.Context) error { return errors.Join(untilDone(ctx), errBoom) })
			})
			pausing := begin(func() error { return g.Lead(t.Context(), guard.Key("other"), nothing) })
			candidate := begin(func() error { return g.Lead(t.Context(), k, never(t), guard.NoWait()) }) // it waits all the same
			begun := time.Now()
			require.NoError(t, row.end(t.Context(), g.Guard))
			err := <-fails
			require.ErrorIs(t, err, guard.ErrClosed)
			require.ErrorIs(t, err, errBoom)
			for _, ended := range []chan error{leads, candidate, pausing} {
				assert.Equal(t, guard.ErrClosed, <-ended)
			}
			assert.Less(t, time.Since(begun), 100*time.Millisecond)
			g.s.NoneHeld(t, "k other fails")
			assert.Equal(t, guard.ErrClosed, g.Lead(t.Context(), k, never(t)))
		})
	}
}

// What fn has left behind ends with the term, and the process may lead again.
func TestLead_ATermEndsWhatItsWorkLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, cancel := context.WithCancel(t.Context())
		left, terms := make(chan error, 1), new(atomic.Int32)
		leading := begin(func() error {
			return g.Lead(ctx, k, func(ctx context.Context) error {
				if terms.Add(1) == 1 {
					entered := make(chan struct{})
					go func() {
						left <- g.WithLock(ctx, k, func(ctx context.Context) error { close(entered); <-ctx.Done(); return context.Cause(ctx) })
					}()
					<-entered
				}
				return nil
			})
		})
		require.ErrorIs(t, <-left, guard.ErrReleased)
		time.Sleep(time.Minute)
		assert.Greater(t, terms.Load(), int32(1))
		cancel()
		require.ErrorIs(t, <-leading, context.Canceled)
	})
}

// Calls under a lease may lock on while the Guard is shut down. A candidate under one does not stand again.
func TestLead_ShutdownEndsACandidateUnderALease(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		outer := g.acquire(t.Context(), "outer")
		led := make(chan struct{})
		leading := begin(func() error {
			return g.Lead(outer.Context(), k, func(context.Context) error { close(led); return nil })
		})
		<-led
		synctest.Wait()
		other := g.another().take()
		down := begin(func() error { return g.Shutdown(t.Context()) })
		require.ErrorIs(t, <-leading, guard.ErrClosed)
		g.free(outer)
		require.NoError(t, <-down)
		_ = other.Release(t.Context())
	})
}

func TestLead_RefusesOptionsThatNeverWork(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		for want, opt := range map[string]guard.LockOption{
			"Limit 2 does not go with Lead: only one leads": guard.Limit(2),
			"Shared does not go with Lead: only one leads":  guard.Shared(),
			"FailOpen": guard.FailOpen(),
		} {
			require.ErrorContains(t, g.Lead(t.Context(), k, never(t), opt), want)
		}
		require.ErrorIs(t, g.Lead(t.Context(), guard.Key(""), never(t)), guard.ErrKey)
		require.ErrorIs(t, g.Lead(t.Context(), k, never(t), guard.TTL(0)), guard.ErrOption)
		require.ErrorIs(t, (*guard.Guard)(nil).Lead(t.Context(), k, never(t)), guard.ErrNoGuard)
		unknown := func(context.Context) (string, error) { return "", errBoom }
		require.EqualError(t, g.Lead(t.Context(), unknown, never(t)), g.WithLock(t.Context(), unknown, never(t)).Error())
		assert.Zero(t, g.s.Calls("acquire"))
		require.ErrorContains(t, g.WithLock(t.Context(), k, func(ctx context.Context) error { return g.Lead(ctx, k, never(t)) }), "holds the key already")
	})
}

// Losses are failures as well: the pauses after them grow. A term that lasted makes the next failure the first one again.
func TestLead_PausesAfterLossesGrow(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		end := time.Now()
		var pauses []time.Duration
		require.Same(t, errDone, g.Lead(t.Context(), k, func(ctx context.Context) error {
			pauses = append(pauses, time.Since(end))
			switch len(pauses) {
			case 11:
				time.Sleep(time.Minute)
			case 12:
				return errDone
			}
			g.s.Drop("k")
			<-ctx.Done()
			end = time.Now()
			return nil
		}, guard.TTL(time.Second)))
		assert.Greater(t, pauses[10], 4*time.Second)
		assert.Less(t, pauses[11], 250*time.Millisecond)
	})
}
