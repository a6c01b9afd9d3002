package tasklock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

var tasks = tasklock.New("guardtasks", time.Second)

func order7(kind, payload string) *tasklock.Work {
	return &tasklock.Work{
		Task: tasklock.Task{Kind: kind, Payload: []byte(payload)},
		Name: kind,
		Do:   func(context.Context) error { return nil },
	}
}

func TestWords_UnknownOnesAreRefused(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{task:name}":           `"name" is none of kind, id, queue`,
		"{job:name}":            `no placeholder is of the kind "job"`,
		"{query:id}":            `no placeholder is of the kind "query"`,
		"{order_id}{task:kind}": "{task:kind} needs a ':' between it and {order_id}",
	} {
		_, err := tasks.ParseKey(template)
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "guardtasks: key template")
		assert.PanicsWithValue(t, err.Error(), func() { tasks.Lock(template, nil) })
		assert.PanicsWithValue(t, err.Error(), func() { tasks.Lock("a", nil).And(template) })
	}
}

func TestRule_MisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	orders := func(opts ...guard.LockOption) tasklock.Rule { return tasks.Lock("order:{order_id}", opts) }
	once := func(opts ...guard.OnceOption) tasklock.Rule { return orders().Once(time.Hour, opts...) }
	for want, rule := range map[string]tasklock.Rule{
		"no KeyFunc":                                 tasks.LockFunc(nil, nil).And("a").Unlocked(nil).OnError(nil),
		"guard: Wait -1ns is negative":               orders(guard.Wait(-1)),
		"OnBusy 3 is none of Retry, Drop, GiveUp":    orders().OnBusy(3),
		"OnBusy -1 is none of Retry, Drop, GiveUp":   orders().OnBusy(-1),
		"guard: Wait -3ns is negative":               orders(guard.Wait(-3)).OnBusy(3),
		"guard: Wait -2ns is negative":               once(guard.Wait(-2)),
		"guard: keep 0s is outside 1ms to 8784h0m0s": orders().Once(0),
	} {
		assert.PanicsWithValue(t, "guardtasks: "+want, func() { tasks.Must(nil, rule) })
		assert.PanicsWithValue(t, `guardtasks: row "a": `+want, func() { tasks.Table(nil, map[string]tasklock.Rule{"a": rule, "b": {}}) })
	}
	assert.PanicsWithValue(t, `guardtasks: row " ": it is blank`, func() { tasks.Table(nil, map[string]tasklock.Rule{" ": orders()}) })
	assert.NotPanics(t, func() { tasks.Must(nil, orders(nil).Unlocked(nil).OnError(nil).Once(0).Once(time.Hour, nil)) })
}

// A task that will never have a key is given up. The program's own faults are not the task's.
func TestVerdict_OfKeys(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	for text, row := range map[string]struct {
		rule tasklock.Rule
		want tasklock.Strategy
	}{
		"placeholder {order_id}: missing or empty":                      {tasks.Lock("{order_id}", nil), tasklock.GiveUp},
		"placeholder {header:tenant}: missing or empty":                 {tasks.Lock("{header:tenant}", nil), tasklock.GiveUp},
		"placeholder {task:id}: the task did not come from a server":    {tasks.Lock("{task:id}", nil), tasklock.Retry},
		"placeholder {task:queue}: the task did not come from a server": {tasks.Lock("{task:queue}", nil), tasklock.Retry},
		"own": {tasks.LockFunc(func(context.Context, tasklock.Task) (string, error) { return "", own }, nil), tasklock.Retry},
	} {
		l := tasks.Must(guardtest.NewMemoryGuard(t), row.rule.OnBusy(tasklock.Drop))
		_, err := l.Run(t.Context(), order7("pay", `{}`))
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.ErrorContains(t, err, text)
		assert.Equal(t, row.want, l.Verdict(err), text)
	}
}

// A key function that met a busy lock of its own failed: the task's lock is not the busy one.
func TestVerdict_OfAKeyFunctionThatWasBusy(t *testing.T) {
	t.Parallel()
	l := tasks.Must(nil, tasks.Lock("a", nil).OnBusy(tasklock.Drop))
	assert.Equal(t, tasklock.Drop, l.Verdict(&guard.BusyError{}))
	assert.Equal(t, tasklock.Retry, l.Verdict(&guard.KeyError{Err: &guard.BusyError{}}))
}

func TestProcess_ConditionsSeeTheContextOfTheTask(t *testing.T) {
	t.Parallel()
	type tenant struct{}
	ctx := context.WithValue(t.Context(), tenant{}, "acme")
	l := tasks.Must(guardtest.NewMemoryGuard(t), tasks.Lock("a", nil).Unlocked(func(ctx context.Context, _ tasklock.Task) bool {
		return ctx.Value(tenant{}) == "acme"
	}))
	assert.NoError(t, l.Process(ctx, order7("pay", `{}`), nil, nil))
}

func TestProcess_TheErrorOfTheWorkCountsBesideALoss(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	l := tasks.Must(nil, tasks.Lock("a", nil))
	lock := func(context.Context, *tasklock.Work) (error, error) { return own, &guard.LostError{} }
	assert.Same(t, own, l.Process(t.Context(), order7("pay", `{}`), lock, nil))
}

// The end of a task's context is not a busy lock.
func TestVerdict_OfAWaitThatWasCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.NewMemoryGuard(t)
		lease, err := g.Acquire(t.Context(), guard.Key("order:7"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		l := tasks.Must(g, tasks.Lock("order:{order_id}", []guard.LockOption{guard.Wait(guard.Forever)}).OnBusy(tasklock.GiveUp))
		_, err = l.Run(ctx, order7("pay", `{"order_id":7}`))
		assert.ErrorIs(t, err, guard.ErrBusy)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, tasklock.Retry, l.Verdict(err))
		assert.NoError(t, lease.Release(t.Context()))
	})
}

// One key acknowledges no work of another kind or payload. Where it is delivered, and to whom, does not matter.
func TestOnce_KindAndPayloadAreTheInput(t *testing.T) {
	t.Parallel()
	l := tasks.Must(guardtest.NewMemoryGuard(t), tasks.Lock("order:{order_id}", nil).Once(time.Hour))
	runs := 0
	for _, row := range []struct {
		kind, payload, name, queue string
		err                        error
	}{
		{"pay", `{"order_id":7}`, "charge", "orders", nil},
		{"refund", `{"order_id":7}`, "charge", "orders", guard.ErrOtherInput},
		{"pay", `{"order_id":7,"amount":2}`, "charge", "orders", guard.ErrOtherInput},
		{"pay", `{"order_id":7}`, "renamed", "another", nil},
	} {
		w := order7(row.kind, row.payload)
		w.Name, w.Queue, w.ID = row.name, row.queue, row.name
		w.Do = func(context.Context) error { runs++; return nil }
		own, err := l.Run(t.Context(), w)
		assert.NoError(t, own)
		assert.ErrorIs(t, err, row.err)
		if row.err != nil {
			assert.Equal(t, tasklock.GiveUp, l.Verdict(err))
		}
	}
	assert.Equal(t, 1, runs)
}
