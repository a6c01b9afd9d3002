package guardriver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/postgrestest"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

// patience bounds a wait for an event within seconds.
const patience = 30 * time.Second

// orderArgs are any arguments.
type orderArgs struct{ json.RawMessage }

func (orderArgs) Kind() string { return "charge_order" }

// queue is a queue of River on a real PostgreSQL.
type queue struct {
	name   string
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // inserts only
}

var (
	queues   atomic.Int64
	migrated sync.Once
)

func newQueue(t *testing.T) *queue {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgrestest.Shared(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	driver := riverpgxv5.New(pool)
	migrated.Do(func() {
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
		require.NoError(t, err)
	})
	client, err := river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return &queue{fmt.Sprintf("queue-%d", queues.Add(1)), pool, client}
}

// atOnce retries without a pause.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// start runs a client that works on the jobs until the test ends.
func (q *queue) start(t *testing.T, work func(context.Context, *river.Job[orderArgs]) error, middleware ...rivertype.Middleware) *river.Client[pgx.Tx] {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(work))
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Queues: map[string]river.QueueConfig{q.name: {MaxWorkers: 10}}, Workers: workers, Middleware: middleware,
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		RetryPolicy: atOnce{}, LeaderElectionDisabled: true, TestOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, client.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = client.StopAndCancel(ctx)
	})
	return client
}

func (q *queue) add(t *testing.T, args string, opts river.InsertOpts) *rivertype.JobRow {
	t.Helper()
	opts.Queue = q.name
	job, err := q.client.Insert(t.Context(), orderArgs{json.RawMessage(args)}, &opts)
	require.NoError(t, err)
	return job.Job
}

func (q *queue) look(t *testing.T, id int64) *rivertype.JobRow {
	t.Helper()
	job, err := q.client.JobGet(t.Context(), id)
	require.NoError(t, err)
	return job
}

// reaches waits until a job is in a state.
func (q *queue) reaches(t *testing.T, id int64, state rivertype.JobState) (job *rivertype.JobRow) {
	t.Helper()
	require.Eventually(t, func() bool {
		job = q.look(t, id)
		return job.State == state
	}, patience, 10*time.Millisecond, "%v", state)
	return job
}

// Serve implements tasktest.Queue.
func (q *queue) Serve(t *testing.T, s tasktest.Setup) {
	seen := river.WorkerMiddlewareFunc(func(ctx context.Context, _ *rivertype.JobRow, work func(context.Context) error) error {
		err := work(ctx)
		s.Seen(err)
		return err
	})
	q.start(t, func(ctx context.Context, _ *river.Job[orderArgs]) error { return s.Work(ctx) }, seen, guardriver.Middleware(s.Guard, s.Rule))
}

// Add implements tasktest.Queue.
func (q *queue) Add(t *testing.T, payload, header, value string) func() tasktest.State {
	metadata, err := json.Marshal(map[string]string{header: value})
	require.NoError(t, err)
	job := q.add(t, payload, river.InsertOpts{Metadata: metadata})
	return func() tasktest.State {
		now := q.look(t, job.ID)
		return tasktest.State{
			Done:     now.State == rivertype.JobStateCompleted,
			GivenUp:  now.State == rivertype.JobStateCancelled || now.State == rivertype.JobStateDiscarded,
			Failures: len(now.Errors),
		}
	}
}

func TestTasks(t *testing.T) {
	t.Parallel()
	tasktest.Suite(t, func(t *testing.T) tasktest.Queue { return newQueue(t) })
}

func TestMain(m *testing.M) {
	code := tasktest.Main(m, func(m *testing.M) int { return redistest.Run(m) })
	postgrestest.Stop()
	os.Exit(code)
}
