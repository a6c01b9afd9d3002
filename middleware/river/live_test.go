package guardriver_test

import (
	"context"
	"testing"
	"time"

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

// A job that has one attempt outlasts a busy lock.
func TestLive_ASnoozeBurnsNoAttempt(t *testing.T) {
	t.Parallel()
	g, q := guardtest.NewGuard(t), newQueue(t)
	release := hold(t, g)
	q.start(t, succeed, guardriver.Middleware(g, orders(guard.NoWait())))
	job := q.add(t, `{"order_id":7}`, river.InsertOpts{MaxAttempts: 1})
	require.Eventually(t, func() bool { return string(q.look(t, job.ID).Metadata) != "{}" }, patience, 10*time.Millisecond)
	snoozed := q.look(t, job.ID)
	assert.Contains(t, string(snoozed.Metadata), "snoozes")
	release()
	done := q.reaches(t, job.ID, rivertype.JobStateCompleted)
	assert.Equal(t, 1, done.Attempt)
	assert.Empty(t, done.Errors)
}

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

func TestLive_LostLockUsesUpAnAttempt(t *testing.T) {
	t.Parallel()
	store, q := guardtest.NewStore(), newQueue(t)
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	q.start(t, func(ctx context.Context, job *river.Job[orderArgs]) error {
		if job.Attempt == 1 {
			store.Drop("order:7")
			<-ctx.Done()
		}
		return nil
	}, guardriver.Middleware(g, orders()))
	job := q.reaches(t, q.add(t, `{"order_id":7}`, river.InsertOpts{}).ID, rivertype.JobStateCompleted)
	assert.Equal(t, 2, job.Attempt)
	if assert.Len(t, job.Errors, 1) {
		assert.Contains(t, job.Errors[0].Error, `guard: lock "charge_order" was lost`)
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

// lockedWorker locks its own jobs.
type lockedWorker struct {
	river.WorkerDefaults[orderArgs]
	lock rivertype.WorkerMiddleware
	keys chan string
}

func (w *lockedWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return []rivertype.WorkerMiddleware{w.lock}
}

func (w *lockedWorker) Work(ctx context.Context, _ *river.Job[orderArgs]) error {
	lease, _ := guard.FromContext(ctx)
	w.keys <- lease.Key()
	return nil
}

func TestLive_MiddlewareOfAWorker(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	worker := &lockedWorker{lock: guardriver.Middleware(guardtest.NewGuard(t), orders()), keys: make(chan string, 1)}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	q.startWorkers(t, workers)
	q.add(t, `{"order_id":7}`, river.InsertOpts{})
	assert.Equal(t, "order:7", <-worker.keys)
}
