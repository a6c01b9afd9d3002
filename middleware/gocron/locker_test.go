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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
)

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
		other, err := l.Lock(t.Context(), "report:weekly")
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))

		over, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.Unlock(over) // gocron's context may be over
		synctest.Wait()
		assert.Equal(t, 0, s.Depth("gocron:report%3Adaily"))
	})
}

func TestLocker_WaitsIfToldTo(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		l := guardgocron.Locker(newGuard(t, s), guard.Wait(3*time.Second), guard.Name("n"))
		first, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		begun := time.Now()
		_, err = l.Lock(t.Context(), "report")
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		assert.Equal(t, "n", busy.Name)
		assert.Equal(t, 3*time.Second, time.Since(begun))
		require.NoError(t, first.Unlock(t.Context()))
	})
}

func TestLocker_RefusesWhatIsNoName(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		l := guardgocron.Locker(newGuard(t, s))
		for _, name := range []string{
			"", "main.report", "main.main.func1", "main.main.func2.1", "jobs.Report.func1", "jobs.(*Shop).Report-fm",
			"github.com/redlatch/redlatch/jobs.Report", "example.com/jobs.(*Shop).Report", "example.com/jobs.V2",
		} {
			_, err := l.Lock(t.Context(), name)
			require.ErrorIs(t, err, guard.ErrKey, name)
			require.ErrorContains(t, err, "gocron.WithName")
		}
		for _, name := range []string{"report", "report.daily", "tenant/7/report.daily", "Rechnung für Müller", "func1", "a/b.c/d", "example.com/reports.v2", "github.com/acme/shop/reports.v10"} {
			got, err := l.Lock(t.Context(), name)
			require.NoError(t, err, name)
			require.NoError(t, got.Unlock(t.Context()))
		}
	})
}

// What gocron itself makes of a job without a name is refused.
func TestLocker_RefusesGocronsDefaultName(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		errs := make(chan error, 10)
		scheduler := newScheduler(t, gocron.WithDistributedLocker(guardgocron.Locker(newGuard(t, s))))
		_, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { t.Error("ran") }), gocron.WithEventListeners(lockErrors(errs)))
		require.NoError(t, err)
		require.ErrorContains(t, <-errs, "gocron.WithName")
	})
}

func TestLocker_TellsWhyAJobDidNotRun(t *testing.T) {
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
		_ = held.Release(t.Context()) // or the ttl is over
		<-ran
	})

	_, err := guardgocron.Locker(nil).Lock(t.Context(), "report")
	require.ErrorIs(t, err, guard.ErrNoGuard)
	assert.PanicsWithValue(t, "guardgocron: guard: TTL 1ns is outside 100ms to 24h0m0s",
		func() { guardgocron.Locker(nil, guard.TTL(1)) })
}

// Gocron keeps the error of a Locker to itself: the log says once why a job does not run.
func TestLocker_TheLogNamesAJobWithoutAName(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	l := guardgocron.Locker(newGuard(t, guardtest.NewStore()))
	for range 2 {
		_, err := l.Lock(t.Context(), "main.report")
		require.ErrorIs(t, err, guard.ErrKey)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "set one with gocron.WithName"), log.String())
}

// Two schedulers whose ticks are 300 ms apart; a job lasts longer than that.
func TestLocker_AJobRunsOnOneOfTwoSchedulers(t *testing.T) {
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
