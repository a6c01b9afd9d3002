package guardriver_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

func succeed(context.Context, *river.Job[orderArgs]) error { return nil }

func TestLive_Strategies(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		strategy guardriver.Strategy
		state    rivertype.JobState
	}{
		"SkipRun": {guardriver.SkipRun, rivertype.JobStateCompleted},
		"Cancel":  {guardriver.Cancel, rivertype.JobStateCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, q := guardtest.NewGuard(t), newQueue(t)
			defer hold(t, g)()
			q.start(t, func(context.Context, *river.Job[orderArgs]) error { panic("ran") },
				guardriver.Middleware(g, orders(guard.NoWait()).BusyStrategy(row.strategy)))
			job := q.reaches(t, q.add(t, `{"order_id":7}`, river.InsertOpts{}).ID, row.state)
			for _, e := range job.Errors {
				assert.NotContains(t, e.Error, "order:7")
				assert.NotContains(t, e.Error, "secret")
			}
		})
	}
}

// waits tells when a job begins to wait for its lock.
type waits struct {
	guard.NopObserver
	begun chan struct{}
}

func (w waits) WaitStart(ctx context.Context, _ guard.Lock) context.Context {
	w.begun <- struct{}{}
	return ctx
}

// waitForever has a job wait for a lock that stays busy.
func waitForever(t *testing.T) (q *queue, client *river.Client[pgx.Tx], id int64) {
	t.Helper()
	store, waiting := guardtest.NewStore(), waits{begun: make(chan struct{}, 10)}
	holder, err := guard.NewWithStore(store)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, holder.Close()) })
	t.Cleanup(hold(t, holder))
	g, err := guard.NewWithStore(store, guard.Observe(waiting))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	q = newQueue(t)
	client = q.start(t, succeed, guardriver.Middleware(g, orders(guard.Wait(guard.Forever))))
	id = q.add(t, `{"order_id":7}`, river.InsertOpts{MaxAttempts: 1}).ID
	<-waiting.begun
	return q, client, id
}

func TestLive_AJobThatWaitsCanBeCancelled(t *testing.T) {
	t.Parallel()
	q, client, id := waitForever(t)
	_, err := client.JobCancel(t.Context(), id)
	require.NoError(t, err)
	q.reaches(t, id, rivertype.JobStateCancelled)
}

func TestLive_AJobThatWaitsIsPutBackAtAShutdown(t *testing.T) {
	t.Parallel()
	q, client, id := waitForever(t)
	require.NoError(t, client.StopAndCancel(t.Context()))
	job := q.reaches(t, id, rivertype.JobStateAvailable)
	assert.Zero(t, job.Attempt)
	assert.Empty(t, job.Errors)
}
