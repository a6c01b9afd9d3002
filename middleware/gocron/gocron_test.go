package guardgocron_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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

// Gocron does not log the error of a Locker: the Locker logs once why a job does not run.
func TestLocker_FunctionNamesAreRefused(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		l := guardgocron.Locker(newGuard(t, s))
		refused := []string{
			"", "main.report", "main.main.func1", "main.main.func2.1", "jobs.Report.func1", "jobs.(*Shop).Report-fm",
			"github.com/redlatch/redlatch/jobs.Report", "example.com/jobs.(*Shop).Report", "example.com/jobs.V2",
		}
		for _, name := range slices.Concat(refused, refused) {
			_, err := l.Lock(t.Context(), name)
			var failed *guard.KeyError
			require.ErrorAs(t, err, &failed, name)
			assert.Equal(t, name, failed.Key)
			require.ErrorContains(t, err, "gocron.WithName")
		}
		_, err := newScheduler(t, gocron.WithDistributedLocker(l)).NewJob(gocron.DurationJob(time.Second), gocron.NewTask(func() { t.Error("ran") }))
		require.NoError(t, err) // a job without a name has that of its function
		time.Sleep(3 * time.Second)
		assert.Equal(t, len(refused)+1, strings.Count(log.String(), "gocron.WithName"), log.String())
		for _, name := range []string{"report", "report.daily", "tenant/7/report.daily", "Rechnung für Müller", "func1", "a/b.c/d", "example.com/reports.v2", "github.com/acme/shop/reports.v10"} {
			got, err := l.Lock(t.Context(), name)
			require.NoError(t, err, name)
			require.NoError(t, got.Unlock(t.Context()))
		}
	})
}

func TestLocker_AnOutageIsNotBusy(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		s.Fail(&guardstore.RefusedError{Err: errors.New("down")})
		_, err := guardgocron.Locker(newGuard(t, s)).Lock(t.Context(), "report")
		require.ErrorIs(t, err, guard.ErrStore)
	})
	_, err := guardgocron.Locker(nil).Lock(t.Context(), "report")
	require.ErrorIs(t, err, guard.ErrNoGuard)
	assert.PanicsWithValue(t, "guardgocron: guard: TTL 1ns is outside 100ms to 24h0m0s",
		func() { guardgocron.Locker(nil, guard.TTL(1)) })
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
			}), gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { skipped <- err }))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 10, runs.Load(), "once per tick")
		assert.Len(t, skipped, 10)
	})
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
		})), gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { errs <- err }))
		require.ErrorIs(t, <-errs, guard.ErrLost)
	})
}

func TestTask_RunElsewhereIsBusyAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s, guard.Wait(time.Minute))
		boom := errors.New("boom")
		task := guardgocron.Task(g, guard.Key("report"), func(context.Context) error { panic("ran") })
		held, err := newGuard(t, s).Acquire(t.Context(), guard.Key("report"))
		require.NoError(t, err)
		begun := time.Now()
		require.ErrorIs(t, task(t.Context()), guard.ErrBusy)
		assert.Zero(t, time.Since(begun))

		time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
		waits := guardgocron.Task(g, guard.Key("report"), func(context.Context) error { return boom }, guard.Wait(time.Minute))
		assert.Same(t, boom, waits(t.Context()))
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

// bubble runs test in virtual time, with a store that instances share.
func bubble(t *testing.T, test func(t *testing.T, s *guardtest.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, guardtest.NewStore()) })
}

// newGuard is the Guard of one instance.
func newGuard(t *testing.T, s *guardtest.Store, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.NewWithStore(s, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// newScheduler is a scheduler that is started and shut down with the test.
func newScheduler(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

// everySecond adds a job for each second.
func everySecond(t *testing.T, s gocron.Scheduler, name string, task gocron.Task, listeners ...gocron.EventListener) {
	t.Helper()
	_, err := s.NewJob(gocron.DurationJob(time.Second), task, gocron.WithName(name), gocron.WithEventListeners(listeners...))
	require.NoError(t, err)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
