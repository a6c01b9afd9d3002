package guardgocron_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
)

var jobs = guard.Key("jobs")

func TestElector_NextTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		a := guardgocron.Elector(ctx, newGuard(t, s), jobs)
		synctest.Wait()
		later, cancelLater := context.WithCancel(t.Context())
		defer cancelLater()
		b := guardgocron.Elector(later, newGuard(t, s), jobs)
		synctest.Wait()
		require.NoError(t, a.IsLeader(t.Context()))
		require.ErrorIs(t, b.IsLeader(t.Context()), guardgocron.ErrNotLeader)

		cancel()
		require.ErrorIs(t, a.IsLeader(t.Context()), guardgocron.ErrNotLeader, "at once")
		time.Sleep(50 * time.Millisecond)
		require.ErrorIs(t, a.IsLeader(t.Context()), context.Canceled)
		require.NoError(t, b.IsLeader(t.Context()))
	})
}

// kept is a context that delays the watchdog, which ends a context below it.
type kept struct {
	context.Context
	from  atomic.Bool
	until chan struct{}
}

func (k *kept) Done() <-chan struct{} {
	if k.from.Load() {
		<-k.until
	}
	return k.Context.Done()
}

// The clock counts, even if the watchdog is late.
func TestElector_LapsedLeaseEndsLeadershipByTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g, keeps := newGuard(t, s, guard.TTL(time.Second)), &kept{Context: t.Context(), until: make(chan struct{})}
		_, err := g.Acquire(keeps, guard.Key("other"), guard.MaxHold(time.Millisecond))
		require.NoError(t, err)
		keeps.from.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := guardgocron.Elector(ctx, g, jobs)
		synctest.Wait()
		require.NoError(t, e.IsLeader(t.Context()))
		time.Sleep(2 * time.Second)
		assert.ErrorIs(t, e.IsLeader(t.Context()), guardgocron.ErrNotLeader)
		close(keeps.until)
	})
}

func TestElector_FailureIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s)
		never := guardgocron.Elector(t.Context(), g, guard.Key(""))
		none := guardgocron.Elector(t.Context(), nil, jobs)
		closed := guardgocron.Elector(t.Context(), g, jobs)
		found := guardgocron.Elector(guard.WithGuard(t.Context(), newGuard(t, s)), nil, guard.Key("other"))
		synctest.Wait()
		require.ErrorIs(t, never.IsLeader(t.Context()), guard.ErrKey)
		require.ErrorIs(t, none.IsLeader(t.Context()), guard.ErrNoGuard)
		require.NoError(t, found.IsLeader(t.Context()))
		require.NoError(t, closed.IsLeader(t.Context()))
		require.NoError(t, g.Close())
		synctest.Wait()
		err := closed.IsLeader(t.Context())
		require.ErrorIs(t, err, guard.ErrClosed)
		require.ErrorIs(t, err, guardgocron.ErrNotLeader)
	})
	assert.PanicsWithValue(t, "guardgocron: no KeyFunc", func() { guardgocron.Elector(t.Context(), nil, nil) })
	assert.Panics(t, func() { guardgocron.Elector(t.Context(), nil, jobs, guard.TTL(1)) })
}

func TestLocker_LocksTheNameOfTheJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		r := &guardtest.Recorder{}
		g := newGuard(t, s, guard.Observe(r), guard.Wait(time.Minute))
		l := guardgocron.Locker(g)
		first, err := l.Lock(t.Context(), "report:daily")
		require.NoError(t, err)
		assert.Equal(t, 1, s.Depth(guard.JoinKey("gocron", "report:daily")))
		assert.Equal(t, guard.Lock{Name: "report:daily", Key: "gocron:report%3Adaily"}, r.Observations()[0].Lock)

		begun := time.Now()
		_, err = l.Lock(t.Context(), "report:daily")
		require.ErrorIs(t, err, guard.ErrBusy)
		assert.Zero(t, time.Since(begun), "the Guard's own Wait does not count")
		_, err = guardgocron.Locker(g, guard.Wait(3*time.Second), guard.Name("n")).Lock(t.Context(), "report:daily")
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "n", busy.Name)
		assert.Equal(t, 3*time.Second, time.Since(begun))
		other, err := l.Lock(t.Context(), "report:weekly")
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.Unlock(ended) // gocron's context may have ended
		synctest.Wait()
		assert.Equal(t, 0, s.Depth("gocron:report%3Adaily"))
	})
}

func TestLocker_FunctionNamesAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		l := guardgocron.Locker(newGuard(t, s))
		for _, name := range []string{
			"", "main.report", "main.main.func1", "main.main.func2.1", "jobs.Report.func1", "jobs.(*Shop).Report-fm",
			"github.com/redlatch/redlatch/jobs.Report", "example.com/jobs.(*Shop).Report", "example.com/jobs.V2",
		} {
			_, err := l.Lock(t.Context(), name)
			var failed *guard.KeyError
			require.ErrorAs(t, err, &failed, name)
			assert.Equal(t, name, failed.Key)
			require.ErrorContains(t, err, "gocron.WithName")
		}
		for _, name := range []string{"report", "report.daily", "tenant/7/report.daily", "Rechnung für Müller", "func1", "a/b.c/d", "example.com/reports.v2", "github.com/acme/shop/reports.v10"} {
			got, err := l.Lock(t.Context(), name)
			require.NoError(t, err, name)
			require.NoError(t, got.Unlock(t.Context()))
		}
	})
}

func TestLocker_GocronLearnsWhyAJobDidNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s)
		errs := make(chan error, 100)
		scheduler := newScheduler(t, gocron.WithDistributedLocker(guardgocron.Locker(g)))
		ran := make(chan struct{}, 100)
		held, err := g.Acquire(t.Context(), guard.Key("gocron:report"))
		require.NoError(t, err)
		everySecond(t, scheduler, "report", gocron.NewTask(func() { ran <- struct{}{} }), lockErrors(errs))
		require.ErrorIs(t, <-errs, guard.ErrBusy)
		s.Fail(&guardstore.RefusedError{Err: errors.New("down")})
		for err = <-errs; errors.Is(err, guard.ErrBusy); err = <-errs { // until Redis is found to be down
		}
		require.ErrorIs(t, err, guard.ErrStore)
		assert.Empty(t, ran)
		s.Fail(nil)
		_ = held.Release(t.Context()) // or the ttl has passed
		<-ran
	})

	_, err := guardgocron.Locker(nil).Lock(t.Context(), "report")
	require.ErrorIs(t, err, guard.ErrNoGuard)
	assert.PanicsWithValue(t, "guardgocron: guard: TTL 1ns is outside 100ms to 24h0m0s",
		func() { guardgocron.Locker(nil, guard.TTL(1)) })
}

// Gocron does not log the error of a Locker: the Locker logs once why a job does not run.
func TestLocker_JobWithoutANameIsLogged(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		errs := make(chan error, 10)
		scheduler := newScheduler(t, gocron.WithDistributedLocker(guardgocron.Locker(newGuard(t, s))))
		_, err := scheduler.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(func() { t.Error("ran") }), gocron.WithEventListeners(lockErrors(errs)))
		require.NoError(t, err)
		for range 2 {
			require.ErrorContains(t, <-errs, "gocron.WithName")
		}
	})
	assert.Equal(t, 1, strings.Count(log.String(), "set one with gocron.WithName"), log.String())
}

// Two schedulers whose ticks are 300 ms apart; a job lasts longer than that.
func TestLocker_JobRunsOnOneOfTwoSchedulers(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		var running, runs atomic.Int32
		skipped := make(chan error, 100)
		for range 2 {
			scheduler := newScheduler(t, gocron.WithDistributedLocker(guardgocron.Locker(newGuard(t, s))))
			everySecond(t, scheduler, "report", gocron.NewTask(func() {
				assert.EqualValues(t, 1, running.Add(1))
				runs.Add(1)
				time.Sleep(500 * time.Millisecond)
				running.Add(-1)
			}), lockErrors(skipped))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 10, runs.Load(), "once per tick")
		assert.Len(t, skipped, 10)
	})
}

// results collects the errors of runs.
func results(errs chan<- error) gocron.EventListener {
	return gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { errs <- err })
}

func TestTask_ContextEndsWithItsLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s, guard.TTL(time.Second))
		errs := make(chan error, 100)
		scheduler := newScheduler(t)
		everySecond(t, scheduler, "report", gocron.NewTask(guardgocron.Task(g, guard.Key("report"), func(ctx context.Context) error {
			lease, ok := guard.Held(ctx, guard.Key("report"))
			assert.True(t, ok && lease.Err() == nil)
			s.Drop("report")
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
			return nil
		})), results(errs))
		require.ErrorIs(t, <-errs, guard.ErrLost)
	})
}

func TestTask_RunElsewhereIsBusyAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s, guard.Wait(time.Minute))
		boom := errors.New("boom")
		task := guardgocron.Task(g, guard.Key("report"), func(context.Context) error { return boom })
		held, err := newGuard(t, s).Acquire(t.Context(), guard.Key("report"))
		require.NoError(t, err)
		begun := time.Now()
		require.ErrorIs(t, task(t.Context()), guard.ErrBusy)
		assert.Zero(t, time.Since(begun))

		errs := make(chan error, 100)
		everySecond(t, newScheduler(t), "report", gocron.NewTask(task), results(errs))
		require.ErrorIs(t, <-errs, guard.ErrBusy)
		require.NoError(t, held.Release(t.Context()))
		for err = <-errs; errors.Is(err, guard.ErrBusy); err = <-errs { // until it is its turn
		}
		assert.Same(t, boom, err)

		waits := guardgocron.Task(g, guard.Key("report"), func(context.Context) error { return nil }, guard.Wait(time.Second))
		require.NoError(t, waits(t.Context()))
	})
}

func TestTask_FindsItsGuard(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		task := guardgocron.Task(nil, guard.Key("report"), func(context.Context) error { return nil })
		require.NoError(t, task(guard.WithGuard(t.Context(), newGuard(t, s))))
		require.ErrorIs(t, task(t.Context()), guard.ErrNoGuard)
	})
	never := func(context.Context) error { panic("ran") }
	assert.PanicsWithValue(t, "guardgocron: no KeyFunc", func() { guardgocron.Task(nil, nil, never) })
	assert.PanicsWithValue(t, "guardgocron: no function", func() { guardgocron.Task(nil, guard.Key("report"), nil) })
	assert.Panics(t, func() { guardgocron.Task(nil, guard.Key("report"), never, guard.TTL(1)) })
}
