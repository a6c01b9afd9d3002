package guardriver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/tasktest"
	guardriver "github.com/redlatch/redlatch/middleware/river"
)

var errOwn = errors.New("own")

func order7() *rivertype.JobRow {
	return &rivertype.JobRow{ID: 12, Kind: "charge_order", Queue: "default", EncodedArgs: []byte(`{"order_id":7}`), Metadata: []byte(`{"tenant":"acme"}`)}
}

func orders(opts ...guard.LockOption) guardriver.Rule {
	return guardriver.Lock("order:{order_id}", opts...)
}

func never(context.Context) error { panic("ran") }

func assertSnoozed(t *testing.T, err error) {
	t.Helper()
	var snooze *river.JobSnoozeError
	if assert.ErrorAs(t, err, &snooze) {
		assert.GreaterOrEqual(t, snooze.Duration, time.Second)
		assert.Less(t, snooze.Duration, 2*time.Second)
	}
}

// A busy lock that the worker wanted snoozes the job, too.
func TestMiddleware_BusyLockOfAWorkerSnoozes(t *testing.T) {
	t.Parallel()
	mw := guardriver.Middleware(guardtest.NewMemoryGuard(t), orders())
	busy := &guard.BusyError{Name: "own"}
	err := mw.Work(t.Context(), order7(), func(context.Context) error { return busy })
	assertSnoozed(t, err)
	assert.ErrorIs(t, err, guard.ErrBusy)
	for _, own := range []error{errOwn, river.JobCancel(busy), river.JobSnooze(time.Hour), &guard.LostError{Cause: errOwn}, nil} {
		err := mw.Work(t.Context(), order7(), func(context.Context) error { return own })
		assert.Equal(t, own, err)
	}
}

func TestKeyFunc_GivesAJobUpByJobCancel(t *testing.T) {
	t.Parallel()
	for _, own := range []error{errOwn, river.JobCancel(errOwn)} {
		rule := guardriver.LockFunc(func(context.Context, guardriver.Task) (string, error) { return "", own })
		err := guardriver.Middleware(guardtest.NewMemoryGuard(t), rule).Work(t.Context(), order7(), never)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.ErrorIs(t, err, own)
		assert.Equal(t, own != errOwn, errors.Is(err, &river.JobCancelError{})) //nolint:errorlint // one of two
		assert.NotErrorIs(t, err, &river.JobSnoozeError{})
	}
}

// {header:x} is a field of the metadata, as {field} is one of the arguments.
func TestTask_HeadersAreMetadata(t *testing.T) {
	t.Parallel()
	job := order7()
	job.Metadata = []byte(`{"tenant":"acme","shop":{"id":3}}`)
	mw := guardriver.Middleware(guardtest.NewMemoryGuard(t), guardriver.Lock("{header:tenant}:{header:shop.id}:{task:id}"))
	assert.Same(t, errOwn, mw.Work(t.Context(), job, func(ctx context.Context) error {
		_, ok := guard.Held(ctx, guard.Key("acme:3:12"))
		assert.True(t, ok)
		return errOwn
	}))
}

type renamedArgs struct{ orderArgs }

func (renamedArgs) KindAliases() []string { return []string{"charge", "pay"} }

// River works on jobs of an alias, too, which need a row of their own.
func TestCheck_NamesRowsThatNoJobHasAndAliasesWithoutOne(t *testing.T) {
	t.Parallel()
	rows := guardriver.Jobs{"charge_order": orders(), "pay": orders(), "refund": orders(), " ": {}}
	assert.EqualError(t, guardriver.Check([]river.JobArgs{renamedArgs{}}, rows), `guardriver: row "charge_order": its jobs of the alias "charge" have no row
guardriver: row " ": it is blank
guardriver: row "refund": no job of the given arguments is of this kind`)
	assert.NoError(t, guardriver.Check([]river.JobArgs{orderArgs{}}, guardriver.Jobs{"charge_order": orders()}))
	assert.NoError(t, guardriver.Check([]river.JobArgs{renamedArgs{}}, nil))
}

// A job that waits for a lock that stays busy can be cancelled, and a shutdown puts it back.
func TestLive_WaitingJobIsCancelledOrPutBack(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		end   func(context.Context, *river.Client[pgx.Tx], int64) error
		state rivertype.JobState
	}{
		"is cancelled": {func(ctx context.Context, c *river.Client[pgx.Tx], id int64) error {
			_, err := c.JobCancel(ctx, id)
			return err
		}, rivertype.JobStateCancelled},
		"is put back": {func(ctx context.Context, c *river.Client[pgx.Tx], _ int64) error {
			return c.StopAndCancel(ctx)
		}, rivertype.JobStateAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiting, q := tasktest.NewWaits(), newQueue(t)
			g := guardtest.NewMemoryGuard(t, guard.Observe(waiting))
			t.Cleanup(tasktest.Hold(t, g))
			<-waiting.Begun
			client := q.start(t, func(context.Context, *river.Job[orderArgs]) error { panic("ran") },
				guardriver.Middleware(g, orders(guard.Wait(guard.Forever))))
			id := q.add(t, `{"order_id":7}`, river.InsertOpts{MaxAttempts: 1}).ID
			<-waiting.Begun
			require.NoError(t, row.end(t.Context(), client, id))
			job := q.reaches(t, id, row.state)
			if row.state == rivertype.JobStateAvailable {
				assert.Zero(t, job.Attempt)
				assert.Empty(t, job.Errors)
			}
		})
	}
}

func TestMiddleware_WaitsASecondByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		t.Cleanup(tasktest.Hold(t, g))
		begun := time.Now()
		err := guardriver.Middleware(g, orders()).Work(t.Context(), order7(), never)
		assert.ErrorIs(t, err, &river.JobSnoozeError{})
		assert.Equal(t, time.Second, time.Since(begun))
	})
}

func TestAnnotate_LocksTheJobsOfItsRows(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	mw := guardriver.Annotate(guardtest.NewMemoryGuard(t, guard.Observe(recorder)), guardriver.Jobs{"charge_order": orders()})
	for _, kind := range []string{"charge_order", "charge_order_v2"} {
		job := order7()
		job.Kind = kind
		assert.Same(t, errOwn, mw.Work(t.Context(), job, func(context.Context) error { return errOwn }))
	}
	starts := recorder.Observations("WaitStart")
	require.Len(t, starts, 1)
	assert.Equal(t, guard.Lock{Name: "charge_order", Key: "order:7"}, starts[0].Lock)
}
