package guardasynq_test

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The locks' Redis is not the one of the tasks here.
func TestLiveOutageIsNotCounted(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		begin, end func(*testing.T, *redistest.Server)
	}{
		"stopped": {
			func(_ *testing.T, s *redistest.Server) { s.Kill() },
			func(t *testing.T, s *redistest.Server) { s.Restart(t) },
		},
		"hanging": {
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Pause()) },
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Resume()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			g, err := guard.New(server.Client(t), guard.StoreTimeout(time.Second))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, g.Close()) })
			l := start(t, asynq.Config{}, lockOrders(g), succeed)
			l.reaches(t, l.enqueue(t).ID, asynq.TaskStateCompleted)

			outage.begin(t, server)
			info := l.enqueue(t, asynq.MaxRetry(1))
			for range 2 {
				assert.ErrorIs(t, l.failure(t), guard.ErrStore)
			}
			outage.end(t, server)
			assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried)
		})
	}
}

func TestLiveClosedGuardIsNotCounted(t *testing.T) {
	t.Parallel()
	g := realGuard(t)
	require.NoError(t, g.Close())
	l := start(t, asynq.Config{}, lockOrders(g), never)
	info := l.enqueue(t, asynq.MaxRetry(1))
	assert.ErrorIs(t, l.failure(t), guard.ErrClosed)
	assert.Zero(t, l.reaches(t, info.ID, asynq.TaskStateRetry).Retried)
}
