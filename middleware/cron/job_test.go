package guardcron_test

import (
	"bytes"
	"context"
	"errors"
	"log"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardcron "github.com/redlatch/redlatch/middleware/cron"
)

// bubble runs test in virtual time, with a store that instances share, and collects cron's
// log.
func bubble(t *testing.T, test func(t *testing.T, s *guardtest.Store, logged *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		before := cron.DefaultLogger
		cron.DefaultLogger = cron.PrintfLogger(log.New(&logged, "", 0))
		defer func() { cron.DefaultLogger = before }()
		test(t, guardtest.NewStore(), &logged)
	})
}

// newGuard is the Guard of one instance.
func newGuard(t *testing.T, s *guardtest.Store, opts ...guard.Option) *guard.Guard {
	t.Helper()
	g, err := guard.NewWithStore(s, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// Two crons whose ticks are 300 ms apart; a job lasts longer than that.
func TestJob_RunsOnOneOfTwoCrons(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store, logged *bytes.Buffer) {
		var running, runs atomic.Int32
		job := cron.FuncJob(func() {
			assert.EqualValues(t, 1, running.Add(1))
			runs.Add(1)
			time.Sleep(500 * time.Millisecond)
			running.Add(-1)
		})
		time.Sleep(500 * time.Millisecond) // between the ticks of both
		for i := range 2 {
			locked := guardcron.Job(newGuard(t, s, guard.Wait(time.Minute)), guard.Key("report"))
			c := cron.New()
			c.Schedule(apart(time.Duration(i)*300*time.Millisecond), cron.NewChain(locked).Then(job))
			c.Start()
			defer c.Stop()
		}
		time.Sleep(10*time.Second + 400*time.Millisecond)
		assert.EqualValues(t, 10, runs.Load())
		assert.Empty(t, logged.String(), "a run that is skipped is no error")
	})
}

// apart is a schedule that ticks so much later than each second.
type apart time.Duration

func (a apart) Next(now time.Time) time.Time {
	return now.Add(-time.Duration(a)).Truncate(time.Second).Add(time.Second + time.Duration(a))
}

func TestJob_ContextEndsWithItsLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store, logged *bytes.Buffer) {
		locked := guardcron.Job(newGuard(t, s, guard.TTL(time.Second)), guard.Key("report"), guard.Name("n"))
		ended := false
		cron.NewChain(locked).Then(guardcron.JobFunc(func(ctx context.Context) {
			lease, ok := guard.Held(ctx, guard.Key("report"))
			assert.True(t, ok && lease.Err() == nil)
			s.Drop("report")
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), guard.ErrLost)
			ended = true
		})).Run()
		assert.True(t, ended)
		assert.Contains(t, logged.String(), `lost under the job`)
		assert.Contains(t, logged.String(), `"n"`)
	})
	ran := false
	guardcron.JobFunc(func(ctx context.Context) { ran = ctx.Err() == nil }).Run()
	assert.True(t, ran, "without Job")
}

func TestJob_WhyAJobDidNotRunIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store, logged *bytes.Buffer) {
		never := cron.FuncJob(func() { t.Error("ran") })
		g := newGuard(t, s)
		guardcron.Job(g, guard.Key(""))(never).Run()
		guardcron.Job(nil, guard.Key("k"))(never).Run()
		s.Fail(&guardstore.RefusedError{Err: errors.New("down")})
		guardcron.Job(g, guard.Key("k"))(never).Run()
		for _, why := range []string{"invalid lock key", "no Guard", "store is unavailable"} {
			assert.Contains(t, logged.String(), why)
		}
		assert.Equal(t, 3, strings.Count(logged.String(), "the job did not run"))
	})
}

func TestJob_NilGuardIsTheDefault(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store, _ *bytes.Buffer) {
		guard.SetDefault(newGuard(t, s))
		defer guard.SetDefault(nil)
		ran := false
		guardcron.Job(nil, guard.Key("k"))(cron.FuncJob(func() { ran = s.Depth("k") == 1 })).Run()
		assert.True(t, ran)
	})
}

func TestJob_WaitsIfAnOptionSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store, _ *bytes.Buffer) {
		held, err := newGuard(t, s).Acquire(t.Context(), guard.Key("k"))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
		ran := false
		guardcron.Job(newGuard(t, s), guard.Key("k"), guard.Wait(2*time.Second))(cron.FuncJob(func() { ran = true })).Run()
		assert.True(t, ran)
	})
}

func TestJob_RefusesWhatNeverWorks(t *testing.T) {
	assert.PanicsWithValue(t, "guardcron: no KeyFunc", func() { guardcron.Job(nil, nil) })
	assert.PanicsWithValue(t, "guardcron: guard: TTL 1ns is outside 100ms to 24h0m0s",
		func() { guardcron.Job(nil, guard.Key("k"), guard.TTL(1)) })
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
