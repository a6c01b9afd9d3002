package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

func TestKey_Templates(t *testing.T) {
	t.Parallel()
	task := asynq.NewTaskWithHeaders("order:pay", []byte(`{"order_id":42,"a":{"b":"x:y"}}`), map[string]string{"tenant": "acme"})
	for template, want := range map[string]string{
		"order:{order_id}":           "order:42",
		"{a.b}":                      "x%3Ay",
		"{header:tenant}:{order_id}": "acme:42",
		"{task:type}":                "order%3Apay",
	} {
		key, err := guardasynq.ParseKey(template)
		require.NoError(t, err)
		got, err := key(t.Context(), task)
		assert.NoError(t, err, template)
		assert.Equal(t, want, got)
	}
	for template, want := range map[string]string{
		"order:{id":    `column 7: '{' without '}'`,
		"order:{a..b}": `column 8: "a..b" is not the path of a field`,
		"{task:name}":  `column 2: "name" is none of type, id, queue`,
		"{query:id}":   `column 2: no placeholder is of the kind "query"`,
	} {
		_, err := guardasynq.ParseKey(template)
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "guardasynq: ")
		assert.PanicsWithValue(t, err.Error(), func() { guardasynq.Lock(template) })
	}
}

// A task that lacks a value is given up. The program's own faults are not the task's.
func TestKey_GivenUpIsWhatWillNeverHaveOne(t *testing.T) {
	t.Parallel()
	own := func(err error) guardasynq.Rule {
		return guardasynq.LockFunc(func(context.Context, *asynq.Task) (string, error) { return "", err })
	}
	for text, row := range map[string]struct {
		rule    guardasynq.Rule
		givenUp bool
	}{
		"placeholder {header:Tenant}: missing or empty": {guardasynq.Lock("{header:Tenant}"), true}, // it is spelled otherwise
		"placeholder {task:id}: the context is not":     {guardasynq.Lock("{task:id}"), false},
		"placeholder {task:queue}: the context is not":  {guardasynq.Lock("{task:queue}"), false},
		"own":  {own(errOwn), false},
		"bad:": {own(fmt.Errorf("bad: %w", asynq.SkipRetry)), true},
	} {
		task := asynq.NewTaskWithHeaders("order:pay", nil, map[string]string{"tenant": "acme"})
		mw := guardasynq.Middleware(guardtest.NewMemoryGuard(t), row.rule)
		err := mw(asynq.HandlerFunc(never)).ProcessTask(t.Context(), task)
		assert.ErrorContains(t, err, text)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.Equal(t, row.givenUp, errors.Is(err, asynq.SkipRetry), "%v", err)
	}
}

func TestAnnotate_LongestPatternWins(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	base := guardasynq.Lock("order:{id}").And("shop")
	_ = base.And("left alone")
	tasks := guardasynq.Tasks{
		"order:":        base,
		"order:charge":  guardasynq.Lock("charge:{id}", guard.Name("charges")),
		"order:free":    guardasynq.Lock("free").Unlocked(func(context.Context, *asynq.Task) bool { return true }),
		"order:refund:": guardasynq.LockFunc(func(_ context.Context, t *asynq.Task) (string, error) { return t.Type(), nil }),
	}
	mw := guardasynq.Annotate(guardtest.NewMemoryGuard(t, guard.Observe(recorder)), tasks)
	clear(tasks)
	for kind, want := range map[string][2]string{
		"order:pay":        {"order:7", "order:"},
		"order:":           {"order:7", "order:"},
		"order:charge":     {"charge:7", "charges"},
		"order:charge:now": {"charge:7", "charges"},
		"order:free":       {},
		"order:refund":     {"order:7", "order:"},
		"order:refund:x":   {"order:refund:x", "order:refund:"},
		"order":            {},
		"Order:pay":        {},
		"report":           {},
	} {
		assert.Same(t, errOwn, mw(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			if want[0] == "" {
				_, ok := guard.FromContext(ctx)
				assert.False(t, ok, kind)
				return errOwn
			}
			_, ok := guard.Held(ctx, guard.Key(want[0]))
			assert.True(t, ok, kind)
			starts := recorder.Observations("WaitStart")
			assert.Equal(t, want[1], starts[len(starts)-1].Lock.Name)
			return errOwn
		})).ProcessTask(t.Context(), asynq.NewTask(kind, []byte(`{"id":7}`))))
	}
}

// FuzzTablePicksWhatServeMuxPicks compares with asynq itself.
func FuzzTablePicksWhatServeMuxPicks(f *testing.F) {
	f.Add("order:,order:charge,o", "order:charge:now")
	f.Add("a,ab,abc,b", "abd")
	f.Add("image,image:", "image:resize")
	f.Add(" a,a", " a")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, patterns, kind string) {
		mux, tasks, picked := asynq.NewServeMux(), guardasynq.Tasks{}, ""
		for pattern := range strings.SplitSeq(patterns, ",") {
			if _, ok := tasks[pattern]; ok || strings.TrimSpace(pattern) == "" {
				continue
			}
			mux.HandleFunc(pattern, succeed)
			tasks[pattern] = guardasynq.LockFunc(func(context.Context, *asynq.Task) (string, error) {
				picked = pattern
				return "", errOwn
			})
		}
		task := asynq.NewTask(kind, nil)
		_, want := mux.Handler(task)
		_ = guardasynq.Annotate(guardtest.NewMemoryGuard(t), tasks)(asynq.HandlerFunc(succeed)).ProcessTask(t.Context(), task)
		if picked != want {
			t.Fatalf("%q, %q: the table picks %q, the mux %q", patterns, kind, picked, want)
		}
	})
}

func TestCheck_NamesRowsThatNoTaskHas(t *testing.T) {
	t.Parallel()
	tasks := guardasynq.Tasks{
		"order:": orders(), "order:charge": orders(), "report:build": orders(), "repotr:": orders(),
	}
	const unused = ": no task of the given types has it"
	assert.EqualError(t, guardasynq.Check([]string{"order:pay", "order:charge:now", "report:", "mail:send"}, tasks),
		`guardasynq: row "report:build"`+unused+"\n"+`guardasynq: row "repotr:"`+unused)
	delete(tasks, "repotr:")
	assert.NoError(t, guardasynq.Check([]string{"order:pay", "order:charge", "report:build:daily"}, tasks))
	assert.EqualError(t, guardasynq.Check([]string{"order:charge", "report:build"}, tasks), `guardasynq: row "order:"`+unused)
	assert.EqualError(t, guardasynq.Check([]string{" "}, guardasynq.Tasks{" ": {}}), `guardasynq: row " ": it is blank`)
	assert.NoError(t, guardasynq.Check(nil, nil))
}

func TestRule_MisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	once := func(opts ...guard.OnceOption) guardasynq.Rule { return orders().Once(time.Hour, opts...) }
	for want, rule := range map[string]guardasynq.Rule{
		"no KeyFunc":                   guardasynq.LockFunc(nil).And("a"),
		"guard: Wait -1ns is negative": orders(guard.Wait(-1)),
		"BusyStrategy 3 is none of Retry, Drop, Archive":   orders().BusyStrategy(3),
		"BusyStrategy -1 is none of Retry, Drop, Archive":  orders().BusyStrategy(-1),
		"guard: Wait -2ns is negative":                     once(guard.Wait(-2)),
		"guard: keep 0s is outside 1ms to 8784h0m0s":       orders().Once(0),
		"guard: MaxResult 0 bytes is outside 1 to 1048576": once(guard.MaxResult(0)),

		"guard: Limit does not go with Once: one call runs, the others get its result":  orders(guard.Limit(2)).Once(time.Hour),
		"guard: Shared does not go with Once: one call runs, the others get its result": once(guard.Shared()),
	} {
		assert.PanicsWithValue(t, "guardasynq: "+want, func() { guardasynq.Middleware(nil, rule) })
		assert.PanicsWithValue(t, `guardasynq: row "a": `+want, func() { guardasynq.Annotate(nil, guardasynq.Tasks{"a": rule, "b": {}}) })
	}
	assert.PanicsWithValue(t, `guardasynq: row " ": it is blank`, func() { guardasynq.Annotate(nil, guardasynq.Tasks{" ": orders()}) })
	assert.NotPanics(t, func() {
		guardasynq.Middleware(nil, orders(nil).Unlocked(nil).OnError(nil).Once(0).Once(time.Hour, nil))
	})
	for _, mw := range []asynq.MiddlewareFunc{lockOrders(nil), guardasynq.Annotate(nil, nil)} {
		assert.PanicsWithValue(t, "guardasynq: no handler", func() { mw(nil) })
		assert.PanicsWithValue(t, "guardasynq: no handler", func() { mw(asynq.HandlerFunc(nil)) })
	}
}

// handlerType is a handler that is no asynq.HandlerFunc.
type handlerType struct{}

func (handlerType) ProcessTask(context.Context, *asynq.Task) error { return errOwn }

func TestRule_AHandlerOfAnotherType(t *testing.T) {
	t.Parallel()
	assert.Same(t, errOwn, lockOrders(guardtest.NewMemoryGuard(t))(handlerType{}).ProcessTask(t.Context(), task()))
}

func TestRule_OneSkipIsEnough(t *testing.T) {
	t.Parallel()
	mw := guardasynq.Middleware(guardtest.NewMemoryGuard(t), orders().
		Unlocked(func(context.Context, *asynq.Task) bool { return false }).
		Unlocked(nil).
		Unlocked(func(_ context.Context, t *asynq.Task) bool { return t.Type() == "order:charge" }))
	assert.NoError(t, process(t.Context(), mw, func(ctx context.Context, _ *asynq.Task) error {
		_, ok := guard.FromContext(ctx)
		assert.False(t, ok)
		return nil
	}))
}

func TestRule_OnErrorGetsGuardsErrorsOnly(t *testing.T) {
	t.Parallel()
	var got []error
	mw := guardasynq.Middleware(nil, orders().OnError(func(_ context.Context, task *asynq.Task, err error) error {
		assert.Equal(t, "order:charge", task.Type())
		got = append(got, err)
		return nil
	}).OnError(nil))
	assert.NoError(t, process(t.Context(), mw, never))
	ctx := guard.WithGuard(t.Context(), guardtest.NewMemoryGuard(t))
	assert.ErrorIs(t, process(ctx, mw, func(context.Context, *asynq.Task) error { return errOwn }), errOwn)
	if assert.Len(t, got, 1) {
		assert.ErrorIs(t, got[0], guard.ErrNoGuard)
	}
}

func TestStrategy_IsAboutBusyLocksOnly(t *testing.T) {
	t.Parallel()
	for strategy, settled := range map[guardasynq.Strategy]error{
		guardasynq.Retry: nil, guardasynq.Drop: asynq.RevokeTask, guardasynq.Archive: asynq.SkipRetry,
	} {
		g, store := newStore(t, guard.StoreTimeout(10*time.Millisecond))
		var seen error
		mw := guardasynq.Middleware(g, orders(guard.NoWait()).BusyStrategy(strategy).OnError(
			func(_ context.Context, _ *asynq.Task, err error) error { seen = err; return err }))
		fails := func(want, settled error) {
			t.Helper()
			err := process(t.Context(), mw, never)
			assert.ErrorIs(t, err, want)
			assert.Equal(t, err, seen)
			for _, meaning := range []error{asynq.RevokeTask, asynq.SkipRetry} {
				assert.Equal(t, errors.Is(meaning, settled), errors.Is(err, meaning), "%v", err)
			}
		}
		release := hold(t, g)
		fails(guard.ErrBusy, settled)
		release()

		own := &guard.BusyError{Name: "own"}
		assert.Same(t, own, process(t.Context(), mw, func(context.Context, *asynq.Task) error { return own }))

		store.Fail(errOwn)
		fails(guard.ErrStore, nil)
		require.NoError(t, g.Close())
		fails(guard.ErrClosed, nil)
	}
}

func TestConfigure_CountsOnlyWhatRan(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{Concurrency: 3})
	assert.Equal(t, 3, cfg.Concurrency)
	for _, row := range []struct {
		err   error
		delay time.Duration // at least, and less than twice that; 0 if the run counts
	}{
		{&guard.BusyError{RetryAfter: 3 * time.Second}, 3 * time.Second},
		{fmt.Errorf("own: %w", &guard.BusyError{}), time.Second},
		{&guard.StoreError{Err: errOwn}, time.Second},
		{guard.ErrClosed, time.Second},
		{&guard.LostError{Cause: guard.ErrClosed}, 0},
		{&guard.KeyError{Err: errOwn}, 0},
		{guard.ErrNoGuard, 0},
		{errOwn, 0},
	} {
		assert.Equal(t, row.delay == 0, cfg.IsFailure(row.err), "%v", row.err)
		for range 20 {
			delay := cfg.RetryDelayFunc(0, row.err, task())
			if row.delay == 0 {
				assert.GreaterOrEqual(t, delay, 15*time.Second, "asynq's own for %v", row.err)
				continue
			}
			assert.GreaterOrEqual(t, delay, row.delay, "%v", row.err)
			assert.Less(t, delay, 2*row.delay, "%v", row.err)
		}
	}
	assert.False(t, cfg.IsFailure(nil))
}

func TestConfigure_KeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, errOwn) },
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) * time.Hour },
	})
	assert.False(t, cfg.IsFailure(errOwn))
	assert.True(t, cfg.IsFailure(errors.New("another")))
	assert.False(t, cfg.IsFailure(guard.ErrClosed))
	assert.Equal(t, 2*time.Hour, cfg.RetryDelayFunc(2, errOwn, task()))
	assert.Less(t, cfg.RetryDelayFunc(2, guard.ErrBusy, task()), 2*time.Second)
}
