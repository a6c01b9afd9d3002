package guardgocron_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

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

// lockErrors collects why runs were skipped.
func lockErrors(errs chan<- error) gocron.EventListener {
	return gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { errs <- err })
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
