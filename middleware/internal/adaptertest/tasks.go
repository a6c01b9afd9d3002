package adaptertest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TaskSetup is what a server of tasks is made with: the adapter around a handler.
type TaskSetup struct {
	Guard   *guard.Guard
	Options []guard.LockOption
	Skip    bool
	Once    []guard.OnceOption              // for an hour; nil: without Once
	Work    func(ctx context.Context) error // what the handler does
	Seen    func(error)                     // gets what the adapter returned, after each run
}

// TaskTemplate is that of the key.
const TaskTemplate = "order:{order_id}"

// TaskState is what a framework says of a task.
type TaskState struct {
	Done     bool
	GivenUp  bool // it will not run again
	Failures int  // runs that count against it
}

// TaskQueue is a queue of a framework, on a real server of it.
type TaskQueue interface {
	// Serve has one more process work on the tasks, until the test ends.
	Serve(t *testing.T, s TaskSetup)
	// Add adds a task with a payload in JSON.
	Add(t *testing.T, payload string) (state func() TaskState)
}

// Tasks is the suite that every adapter for tasks passes. newQueue makes a queue of its own for
// each test. The package has a TestMain that calls redistest.Run.
func Tasks(t *testing.T, newQueue func(t *testing.T) TaskQueue) {
	for name, test := range map[string]func(*testing.T, TaskQueue){
		"one at a time":                      taskExclusion,
		"keys":                               taskKeys,
		"busy":                               taskBusy,
		"over its limit":                     taskLimit,
		"lost":                               taskLost,
		"without Redis":                      taskOutage,
		"closed":                             taskClosed,
		"without a key":                      taskWithoutKey,
		"panics":                             taskPanics,
		"skipped":                            taskSkipped,
		"the handler's error unchanged":      taskOwnError,
		"once: what is done is acknowledged": taskOnceDone,
		"once: in progress is busy":          taskOnceInProgress,
		"once: the next learns of a crash":   taskOnceCrash,
		"once: nobody follows a crash":       taskAtMostOnce,
		"once: a key acknowledges no other's work": taskOnceOtherInput,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, newQueue(t)) })
	}
}

// taskPatience is for what comes back in seconds.
const taskPatience = 30 * time.Second

const payOrder7 = `{"order_id":7}`

func eventually(t *testing.T, state func() TaskState, want func(TaskState) bool, says string) TaskState {
	t.Helper()
	var got TaskState
	require.Eventually(t, func() bool { got = state(); return want(got) }, taskPatience, pollEvery, says)
	return got
}

func eventuallyDone(t *testing.T, state func() TaskState) TaskState {
	t.Helper()
	return eventually(t, state, func(s TaskState) bool { return s.Done }, "it is never done")
}

// taskGuard is a Guard whose locks no other test sees.
func taskGuard(t *testing.T, opts ...guard.Option) *guard.Guard {
	t.Helper()
	opts = append([]guard.Option{guard.Prefix(taskPrefix(t))}, opts...)
	return guardOn(t, redistest.Shared(t), opts...)
}

func taskPrefix(t *testing.T) string { return strings.ReplaceAll(t.Name(), " ", "-") }

// ends are what the adapter returned, run by run.
type ends chan error

func newEnds() ends { return make(chan error, 10_000) }

func (e ends) seen(err error) { e <- err }

func (e ends) next(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e:
		return err
	case <-time.After(taskPatience):
		t.Fatal("no run ends")
		return nil
	}
}

func (e ends) nextBusy(t *testing.T) *guard.BusyError {
	t.Helper()
	var busy *guard.BusyError
	require.ErrorAs(t, e.next(t), &busy)
	return busy
}

func holdOrder7(t *testing.T, g *guard.Guard, opts ...guard.LockOption) (release func()) {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"), append(opts, guard.Metadata("secret"))...)
	require.NoError(t, err)
	return func() { assert.NoError(t, lease.Release(context.Background())) }
}

func never(context.Context) error { panic("ran without its lock") }

// taskExclusion has two servers, each with a Guard of its own, work on tasks of one key.
func taskExclusion(t *testing.T, q TaskQueue) {
	const tasks = 40
	var inside atomic.Bool
	runs := 0 // under nothing but the lock
	for range 2 {
		q.Serve(t, TaskSetup{
			Guard: taskGuard(t), Options: []guard.LockOption{guard.Wait(taskPatience)}, Seen: newEnds().seen,
			Work: func(context.Context) error {
				assert.True(t, inside.CompareAndSwap(false, true), "two at a time")
				defer inside.Store(false)
				before := runs
				runtime.Gosched()
				runs = before + 1
				return nil
			},
		})
	}
	var states []func() TaskState
	for range tasks {
		states = append(states, q.Add(t, payOrder7))
	}
	for _, state := range states {
		assert.Zero(t, eventuallyDone(t, state).Failures)
	}
	lease, err := taskGuard(t).Acquire(t.Context(), guard.Key("order:7"), guard.Wait(patience))
	require.NoError(t, err)
	assert.Equal(t, tasks, runs)
	assert.NoError(t, lease.Release(t.Context()))
}

// taskKeys are the same in every adapter.
func taskKeys(t *testing.T, q TaskQueue) {
	keys := make(chan string, 1)
	q.Serve(t, TaskSetup{Guard: taskGuard(t), Seen: newEnds().seen, Work: func(ctx context.Context) error {
		lease, ok := guard.FromContext(ctx)
		if assert.True(t, ok) {
			keys <- lease.Key()
		}
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}})
	for payload, want := range map[string]string{
		payOrder7:                               "order:7",
		`{"order_id":"a:b%"}`:                   "order:a%3Ab%25",
		`{"other":1,"ORDER_ID":true}`:           "order:true",
		`{"order_id":12345678901234567890123}`:  "order:12345678901234567890123",
		`{"order_id":"ü\u0041","other":[1,{}]}`: "order:üA",
	} {
		state := q.Add(t, payload)
		assert.Equal(t, want, <-keys)
		eventuallyDone(t, state)
	}
}

// A busy task comes back, and that does not count against it.
func taskBusy(t *testing.T, q TaskQueue) {
	g, ended := taskGuard(t), newEnds()
	release := holdOrder7(t, g)
	var runs atomic.Int64
	q.Serve(t, TaskSetup{Guard: g, Options: []guard.LockOption{guard.NoWait()}, Seen: ended.seen, Work: func(context.Context) error {
		runs.Add(1)
		return nil
	}})
	state := q.Add(t, payOrder7)
	for range 2 {
		busy := ended.nextBusy(t)
		assert.Zero(t, busy.Waited)
		for _, private := range []string{"order:7", "secret"} {
			assert.NotContains(t, busy.Error(), private, "frameworks keep what errors say")
		}
	}
	assert.Zero(t, runs.Load(), "without its lock")
	assert.False(t, state().Done)
	release()
	assert.Zero(t, eventuallyDone(t, state).Failures)
	assert.EqualValues(t, 1, runs.Load())
}

func taskLimit(t *testing.T, q TaskQueue) {
	g, ended := taskGuard(t), newEnds()
	first, second := holdOrder7(t, g, guard.Limit(2)), holdOrder7(t, g, guard.Limit(2))
	q.Serve(t, TaskSetup{
		Guard: g, Options: []guard.LockOption{guard.NoWait(), guard.Limit(2)}, Seen: ended.seen,
		Work: func(context.Context) error { return nil },
	})
	state := q.Add(t, payOrder7)
	assert.Equal(t, 2, ended.nextBusy(t).Limit)
	first()
	assert.Zero(t, eventuallyDone(t, state).Failures)
	second()
}

// A lost lock is never a success: what ran under it runs again.
func taskLost(t *testing.T, q TaskQueue) {
	g, ended, rdb := taskGuard(t, guard.TTL(lossTTL)), newEnds(), redistest.Shared(t).Client(t)
	var runs atomic.Int64
	q.Serve(t, TaskSetup{Guard: g, Seen: ended.seen, Work: func(ctx context.Context) error {
		if runs.Add(1) > 1 {
			return nil
		}
		assert.NoError(t, rdb.Del(context.WithoutCancel(ctx), taskPrefix(t)+":{order:7}").Err())
		<-ctx.Done()
		var lost *guard.LostError
		assert.ErrorAs(t, context.Cause(ctx), &lost)
		return nil
	}})
	state := q.Add(t, payOrder7)
	assert.ErrorIs(t, ended.next(t), guard.ErrLost)
	eventuallyDone(t, state)
	assert.EqualValues(t, 2, runs.Load())
}

// The locks' Redis is not the one of the tasks here.
func taskOutage(t *testing.T, q TaskQueue) {
	server, ended := redistest.Start(t), newEnds()
	g := guardOn(t, server, guard.StoreTimeout(time.Second))
	server.Kill()
	q.Serve(t, TaskSetup{Guard: g, Seen: ended.seen, Work: func(context.Context) error { return nil }})
	state := q.Add(t, payOrder7)
	for range 2 {
		err := ended.next(t)
		assert.ErrorIs(t, err, guard.ErrStore)
		assert.NotErrorIs(t, err, guard.ErrBusy)
	}
	assert.False(t, state().Done)
	server.Restart(t)
	assert.Zero(t, eventuallyDone(t, state).Failures)
}

func taskClosed(t *testing.T, q TaskQueue) {
	g, ended := taskGuard(t), newEnds()
	require.NoError(t, g.Close())
	q.Serve(t, TaskSetup{Guard: g, Seen: ended.seen, Work: never})
	state := q.Add(t, payOrder7)
	for range 2 {
		assert.ErrorIs(t, ended.next(t), guard.ErrClosed)
	}
	assert.False(t, state().Done)
	assert.Zero(t, state().Failures)
}

// What will never have a key is given up, and does not keep others from their turn.
func taskWithoutKey(t *testing.T, q TaskQueue) {
	ended := newEnds()
	var runs atomic.Int64
	q.Serve(t, TaskSetup{Guard: taskGuard(t), Seen: ended.seen, Work: func(context.Context) error { runs.Add(1); return nil }})
	for _, payload := range []string{`{}`, `{"order_id":null}`, `{"order_id":1,"ORDER_ID":2}`} {
		state := q.Add(t, payload)
		err := ended.next(t)
		assert.ErrorIs(t, err, guard.ErrKey, payload)
		assert.ErrorContains(t, err, "placeholder {order_id}", payload)
		eventually(t, state, func(s TaskState) bool { return s.GivenUp }, "it is not given up")
	}
	assert.Zero(t, runs.Load())
	eventuallyDone(t, q.Add(t, payOrder7))
}

func taskPanics(t *testing.T, q TaskQueue) {
	var runs atomic.Int64
	// The second run is long before the lease of the first would have lapsed.
	q.Serve(t, TaskSetup{
		Guard: taskGuard(t, guard.TTL(time.Hour)), Options: []guard.LockOption{guard.NoWait()}, Seen: newEnds().seen,
		Work: func(context.Context) error {
			if runs.Add(1) == 1 {
				panic("boom")
			}
			return nil
		},
	})
	eventuallyDone(t, q.Add(t, payOrder7))
	assert.EqualValues(t, 2, runs.Load())
}

func taskSkipped(t *testing.T, q TaskQueue) {
	g := taskGuard(t)
	release := holdOrder7(t, g)
	defer release()
	q.Serve(t, TaskSetup{Guard: g, Skip: true, Seen: newEnds().seen, Work: func(ctx context.Context) error {
		_, ok := guard.FromContext(ctx)
		assert.False(t, ok)
		return guard.WithLock(ctx, guard.Key("stock"), func(context.Context) error { return nil })
	}})
	eventuallyDone(t, q.Add(t, payOrder7))
}

func taskOwnError(t *testing.T, q TaskQueue) {
	ended, own := newEnds(), errors.New("own")
	var runs atomic.Int64
	q.Serve(t, TaskSetup{Guard: taskGuard(t), Seen: ended.seen, Work: func(context.Context) error {
		if runs.Add(1) == 1 {
			return own
		}
		return nil
	}})
	state := q.Add(t, payOrder7)
	assert.Same(t, own, ended.next(t))
	eventuallyDone(t, state)
}
