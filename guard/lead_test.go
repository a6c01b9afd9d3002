package guard_test

import (
	"context"
	"errors"
	"runtime"
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

// term is what one call of fn saw.
type term struct {
	who        string
	fence      uint64
	begun, end time.Time
}

// terms collects them, and finds out whether two overlapped.
type terms struct {
	mu   sync.Mutex
	now  int
	most int
	all  []term
}

// serve is a term that lasts until ctx ends, or for d.
func (ts *terms) serve(ctx context.Context, who string, d time.Duration) {
	fence, _ := guard.Fence(ctx)
	ts.mu.Lock()
	ts.now++
	ts.most = max(ts.most, ts.now)
	n := len(ts.all)
	ts.all = append(ts.all, term{who: who, fence: fence, begun: time.Now()})
	ts.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	ts.mu.Lock()
	ts.now--
	ts.all[n].end = time.Now()
	ts.mu.Unlock()
}

func TestLead_LeadersTakeTurnsInTheOrderOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ctx := guardtest.NewStore(), t.Context()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var (
			all terms
			wg  sync.WaitGroup
		)
		for _, who := range []string{"a", "b", "c"} {
			g, err := guard.NewWithStore(store)
			require.NoError(t, err)
			defer g.Close()
			wg.Go(func() {
				assert.ErrorIs(t, g.Lead(ctx, testenv.Order, func(ctx context.Context) error {
					all.serve(ctx, who, 5*time.Second) // longer than the pause
					return nil
				}, guard.NoWait()), context.Canceled, "they wait for their turn all the same")
			})
			synctest.Wait()
		}
		time.Sleep(34 * time.Second)
		cancel()
		wg.Wait()

		var order string
		for i, one := range all.all {
			order += one.who
			if i > 0 {
				assert.Greater(t, one.fence, all.all[i-1].fence, "the fence is the term")
				assert.Less(t, one.begun.Sub(all.all[i-1].end), 10*time.Millisecond, "somebody waited")
			}
		}
		assert.Equal(t, "abcabca", order)
		assert.Equal(t, 1, all.most)
	})
}

func TestLead_ALeaderAloneStandsAgainAfterAPause(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		var ends []time.Time
		boom := errors.New("boom")
		err := g.Lead(t.Context(), testenv.Order, func(context.Context) error {
			if len(ends) > 0 {
				pause := time.Since(ends[len(ends)-1])
				assert.LessOrEqual(t, pause, time.Second)
				assert.GreaterOrEqual(t, pause, 100*time.Millisecond, "another must be able to win")
			}
			ends = append(ends, time.Now())
			if len(ends) == 20 {
				return boom
			}
			return nil
		}, guard.NoWait())
		assert.Same(t, boom, err)
		assert.Len(t, ends, 20)
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}

// Whoever is not in the queue yet wins while the one that stepped down pauses.
func TestLead_StepsDownFarEnoughForAnother(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		led := make(chan struct{}, 100)
		wg.Go(func() { _ = g.Lead(ctx, testenv.Order, func(context.Context) error { led <- struct{}{}; return nil }) })
		<-led
		synctest.Wait()
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(context.Context) error { return nil }, guard.NoWait()))
		cancel()
		wg.Wait()
	})
}

func TestLead_AnErrorOfALeaderEndsLead(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		boom, terms := errors.New("boom"), 0
		err := g.Lead(t.Context(), testenv.Order, func(ctx context.Context) error {
			terms++
			lease, ok := guard.Held(ctx, "order:42")
			require.True(t, ok)
			require.NoError(t, lease.Err())
			return boom
		}, guard.Name("n"))
		assert.Same(t, boom, err)
		assert.Equal(t, 1, terms)
		assert.Equal(t, 0, s.Depth("order:42"), "released")
		assert.Equal(t, "n", r.Observations("HoldStart")[0].Lock.Name)
	})
}

func TestLead_ALostTermIsFollowedByAnotherWhateverItReturned(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		var fences []uint64
		err := g.Lead(ctx, testenv.Order, func(ctx context.Context) error {
			fence, _ := guard.Fence(ctx)
			fences = append(fences, fence)
			if len(fences) == 3 {
				cancel()
				return nil
			}
			s.Drop("order:42")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
			return errors.New("half of the work is undone")
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, fences, 3)
		assert.Less(t, fences[0], fences[1])
		assert.Less(t, fences[1], fences[2])
		synctest.Wait() // the watchdog tells the observers last
		assert.Len(t, r.Events(guard.Loss), 2, "observed")
	})
}

func TestLead_PausesGrowWhileTheStoreIsDown(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		refused := &guardstore.RefusedError{Err: errors.New("down")}
		s.Fail(refused)
		go func() { time.Sleep(5 * time.Minute); s.Fail(nil) }()
		done := errors.New("done")
		err := g.Lead(t.Context(), testenv.Order, func(context.Context) error { return done })
		require.Same(t, done, err, "no restart was needed")
		failed := len(r.Observations("WaitEnd")) - 1
		assert.Less(t, failed, 5*60/5+12, "5 to 10 s between tries")
		assert.Greater(t, failed, 5*60/11)
		for _, o := range r.Observations("WaitEnd")[:failed] {
			assert.ErrorIs(t, o.Wait.Err, guard.ErrStore, "observed")
		}
	})
}

// When the store is back, the next try is at most 10 s away, also for those that a loss of
// their own made wait.
func TestLead_PausesAreJitteredAndBounded(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		var ends []time.Time
		var pauses []time.Duration
		done := errors.New("done")
		err := g.Lead(t.Context(), testenv.Order, func(ctx context.Context) error {
			if len(ends) > 0 {
				pauses = append(pauses, time.Since(ends[len(ends)-1]))
			}
			if len(pauses) == 20 {
				return done
			}
			s.Drop("order:42")
			<-ctx.Done()
			ends = append(ends, time.Now())
			return nil
		}, guard.TTL(time.Second))
		require.Same(t, done, err)
		equal := 0
		for i, pause := range pauses {
			assert.LessOrEqual(t, pause, 10*time.Second+50*time.Millisecond)
			if i > 10 {
				assert.GreaterOrEqual(t, pause, 5*time.Second)
				if pause == pauses[i-1] {
					equal++
				}
			}
		}
		for i, pause := range pauses[:7] {
			longest := 100 * time.Millisecond << i
			assert.LessOrEqual(t, pause, longest+50*time.Millisecond)
			assert.GreaterOrEqual(t, pause, longest/2)
		}
		assert.Less(t, equal, 3)
	})
}

// A term that lasted makes the next failure the first one again.
func TestLead_PausesStartAnewAfterATermThatLasted(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		done, terms := errors.New("done"), 0
		var lost time.Time
		err := g.Lead(t.Context(), testenv.Order, func(ctx context.Context) error {
			if terms++; terms == 13 {
				assert.Less(t, time.Since(lost), 250*time.Millisecond)
				return done
			}
			if terms == 12 {
				time.Sleep(time.Minute)
			}
			s.Drop("order:42")
			<-ctx.Done()
			lost = time.Now()
			return nil
		}, guard.TTL(time.Second))
		require.Same(t, done, err)
	})
}

func TestLead_MaxHoldIsATermOfOffice(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		done, terms := errors.New("done"), 0
		var end time.Time
		err := g.Lead(t.Context(), testenv.Order, func(ctx context.Context) error {
			if terms++; terms == 20 {
				return done
			}
			if terms > 1 {
				assert.LessOrEqual(t, time.Since(end), time.Second, "it is no failure")
			}
			<-ctx.Done()
			end = time.Now()
			return context.Cause(ctx)
		}, guard.MaxHold(time.Second))
		require.Same(t, done, err)
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}

func TestLead_TheEndOfTheContextEndsALeaderAndACandidate(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		why := errors.New("why")
		for name, row := range map[string]struct{ own, joined error }{
			"nil":        {},
			"the end":    {own: context.Canceled},
			"the cause":  {own: why},
			"of its own": {own: errors.ErrUnsupported, joined: errors.ErrUnsupported},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			waited := make(chan error, 1)
			err := g.Lead(ctx, testenv.Order, func(held context.Context) error {
				go func() { waited <- g.Lead(ctx, testenv.Order, func(context.Context) error { panic("led") }) }()
				synctest.Wait()
				cancel(why)
				<-held.Done()
				require.ErrorIs(t, context.Cause(held), why)
				assert.Equal(t, 1, s.Depth("order:42"), "%s: fn is waited for", name)
				return row.own
			})
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, err, why, name)
			if row.joined != nil {
				assert.ErrorIs(t, err, row.joined, name)
			} else {
				assert.NotContains(t, err.Error(), "\n", "%s: nothing is joined", name)
			}
			err = <-waited
			synctest.Wait() // the candidate's claim is withdrawn
			assert.Equal(t, 0, s.Depth("order:42"), "%s: released", name)
			require.ErrorIs(t, err, context.Canceled, name)
			require.NotErrorIs(t, err, guard.ErrBusy, name)
		}
	})
}

func TestLead_TheEndOfTheContextEndsAPause(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		s.Fail(&guardstore.RefusedError{Err: errors.New("down")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, g.Lead(ctx, testenv.Order, func(context.Context) error { panic("led") }), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(begun))
	})
}

// Shutdown waits for leases, and a leader would keep it waiting for ever.
func TestLead_ShutdownAndCloseEndLead(t *testing.T) {
	for name, end := range map[string]func(context.Context, *guard.Guard) error{
		"shutdown": func(ctx context.Context, g *guard.Guard) error { return g.Shutdown(ctx) },
		"close":    func(_ context.Context, g *guard.Guard) error { return g.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
				leads, candidate, pausing := make(chan error, 1), make(chan error, 1), make(chan error, 1)
				go func() {
					leads <- g.Lead(t.Context(), testenv.Order, func(ctx context.Context) error {
						<-ctx.Done()
						assert.ErrorIs(t, context.Cause(ctx), guard.ErrClosed)
						return context.Cause(ctx)
					})
				}()
				go func() {
					pausing <- g.Lead(t.Context(), guard.Key("other"), func(context.Context) error { return nil })
				}()
				synctest.Wait()
				go func() { candidate <- g.Lead(t.Context(), testenv.Order, func(context.Context) error { panic("led") }) }()
				synctest.Wait()
				begun := time.Now()
				require.NoError(t, end(t.Context(), g))
				for _, err := range []error{<-leads, <-candidate, <-pausing} {
					assert.Equal(t, guard.ErrClosed, err)
				}
				assert.Less(t, time.Since(begun), 100*time.Millisecond)
				assert.Equal(t, 0, s.Depth("order:42"), "released")
				assert.Equal(t, guard.ErrClosed, g.Lead(t.Context(), testenv.Order, func(context.Context) error { panic("led") }))
			})
		})
	}
}

func TestLead_RefusesWhatNeverWorks(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		never := func(context.Context) error { panic("led") }
		require.ErrorContains(t, g.Lead(t.Context(), testenv.Order, nil), "fn is nil")
		require.ErrorContains(t, g.Lead(nil, testenv.Order, never), "ctx is nil") //nolint:staticcheck // that is the test
		require.ErrorIs(t, g.Lead(t.Context(), nil, never), guard.ErrKey)
		require.ErrorIs(t, g.Lead(t.Context(), guard.Key(""), never), guard.ErrKey)
		require.ErrorContains(t, g.Lead(t.Context(), testenv.Order, never, guard.TTL(1)), "TTL")
		require.ErrorContains(t, g.Lead(t.Context(), testenv.Order, never, guard.FailOpen()), "FailOpen")
		require.ErrorContains(t, g.Lead(t.Context(), testenv.Order, never, guard.MetadataFunc(func(context.Context) string { return "\xff" })),
			"MetadataFunc")
		require.ErrorIs(t, (*guard.Guard)(nil).Lead(t.Context(), testenv.Order, never), guard.ErrNoGuard)
		require.ErrorIs(t, (&guard.Guard{}).Lead(t.Context(), testenv.Order, never), guard.ErrNoGuard)
		require.ErrorIs(t, guard.Lead(t.Context(), testenv.Order, never), guard.ErrNoGuard)
		assert.Zero(t, s.Calls("acquire"))
		require.ErrorContains(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			return g.Lead(ctx, testenv.Order, never)
		}), "holds the key already")
	})
}

func TestLead_FindsItsGuard(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		done := errors.New("done")
		err := guard.Lead(guard.WithGuard(t.Context(), g), testenv.Order, func(context.Context) error { return done })
		assert.Same(t, done, err)
	})
}

func TestLead_ALeadersPanicAndGoexitReleaseAndGoOn(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		assert.PanicsWithValue(t, "boom", func() {
			_ = g.Lead(t.Context(), testenv.Order, func(context.Context) error { panic("boom") })
		})
		assert.Equal(t, 0, s.Depth("order:42"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = g.Lead(t.Context(), testenv.Order, func(context.Context) error { runtime.Goexit(); return nil })
			t.Error("Goexit was stopped")
		}()
		<-done
		assert.Equal(t, 0, s.Depth("order:42"))
	})
}
