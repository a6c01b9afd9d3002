package guardasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

var errOwn = errors.New("own")

func task() *asynq.Task { return asynq.NewTask("order:charge", []byte(`{"order_id":7}`)) }

func orders(opts ...guard.LockOption) guardasynq.Rule {
	return guardasynq.Lock("order:{order_id}", opts...)
}

func never(context.Context, *asynq.Task) error   { panic("ran") }
func succeed(context.Context, *asynq.Task) error { return nil }

// process runs a task through a middleware as asynq's mux does.
func process(ctx context.Context, mw asynq.MiddlewareFunc, handler asynq.HandlerFunc) error {
	mux := asynq.NewServeMux()
	mux.Use(mw)
	mux.Handle("order:", handler)
	return mux.ProcessTask(ctx, task())
}

// rig is a Guard on a store in memory, in virtual time.
type rig struct {
	*guard.Guard
	t     *testing.T
	store *guardtest.Store
}

func bubble(t *testing.T, test func(t *testing.T, g *rig), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, (&rig{t: t, store: guardtest.NewStore()}).another(opts...)) })
}

func (g *rig) another(opts ...guard.Option) *rig {
	made, err := guard.NewWithStore(g.store, opts...)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = made.Close() })
	return &rig{made, g.t, g.store}
}

// run runs a task that has some time, or any if d is 0.
func (g *rig) run(d time.Duration, rule guardasynq.Rule, handler asynq.HandlerFunc) error {
	ctx := g.t.Context()
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	err := process(ctx, guardasynq.Middleware(g.Guard, rule), handler)
	if d > 0 && !errors.Is(err, context.DeadlineExceeded) {
		assert.NoError(g.t, ctx.Err(), "it ends before the task's time does")
	}
	return err
}

// hold takes the lock of task.
func hold(t *testing.T, g *guard.Guard, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key("order:7"), append(opts, guard.Metadata("secret"))...)
	require.NoError(t, err)
	return lease
}

func release(t *testing.T, lease *guard.Lease) {
	t.Helper()
	assert.NoError(t, lease.Release(context.Background()))
}

// A wait ends after a second, or what the rule says, and before the task's time does, so that the task is not lost.
func TestRun_WaitEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		timeout, want time.Duration
		opts          []guard.LockOption
	}{
		{0, time.Second, nil},
		{time.Second, 900 * time.Millisecond, []guard.LockOption{guard.Wait(time.Minute)}},
		{5 * time.Second, 4500 * time.Millisecond, []guard.LockOption{guard.Wait(time.Minute)}},
		{30 * time.Second, 29 * time.Second, []guard.LockOption{guard.Wait(time.Minute)}},
		{time.Hour, time.Minute, []guard.LockOption{guard.Wait(time.Minute)}},
	} {
		bubble(t, func(t *testing.T, g *rig) {
			held := hold(t, g.Guard)
			defer release(t, held)
			start := time.Now()
			err := g.run(row.timeout, orders(row.opts...), never)
			var busy *guard.BusyError
			require.ErrorAs(t, err, &busy)
			assert.NotErrorIs(t, err, asynq.SkipRetry)
			assert.Equal(t, row.want, time.Since(start))
			assert.Equal(t, row.want, busy.Waited)
			assert.NoError(t, busy.Err)
			for _, private := range []string{"order:7", "secret", held.Owner()} { // asynq shows the text to everybody
				assert.NotContains(t, err.Error(), private)
			}
		})
	}
}

func TestRun_HandlerHasAllOfTheTimeLeft(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, g *rig) {
		want := time.Now().Add(10 * time.Second)
		assert.ErrorIs(t, g.run(10*time.Second, orders(), func(ctx context.Context, _ *asynq.Task) error {
			deadline, _ := ctx.Deadline()
			assert.Equal(t, want, deadline)
			<-ctx.Done()
			assert.False(t, time.Now().Before(want))
			return ctx.Err()
		}), context.DeadlineExceeded)
		g.store.Fail(errOwn)
		err := g.another(guard.StoreTimeout(time.Minute)).run(10*time.Second, orders(), never)
		assert.EqualError(t, err, "guard: lock store is unavailable: acquire: no answer in the time that the task has left")
		assert.ErrorIs(t, err, guard.ErrStore)
		g.store.Fail(nil)
		slow := func(ctx context.Context, _ *asynq.Task) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		err = g.run(10*time.Second, guardasynq.LockFunc(slow), never)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.NotErrorIs(t, err, guard.ErrStore)
	})
}

// tooLong lets a grant arrive when the task has hardly any time left.
type tooLong struct{ guard.NopObserver }

func (tooLong) HoldStart(ctx context.Context, _ guard.Lock, _ guard.Hold) context.Context {
	time.Sleep(9500 * time.Millisecond)
	return ctx
}

// A task for which the lock came too late did not run: the lock is given back, and the task is no success, and not of
// unknown outcome.
func TestOnce_WhatCameTooLateRunsWhenItComesAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, g *rig) {
		for _, rule := range []guardasynq.Rule{orders(), orders().Once(time.Hour, guard.AtMostOnce())} {
			assert.ErrorIs(t, g.another(guard.Observe(tooLong{})).run(10*time.Second, rule, never), guard.ErrStore)
			assert.Zero(t, g.store.Depth("order:7"))
		}
		runs := 0
		for range 2 {
			assert.NoError(t, g.run(0, orders().Once(time.Hour, guard.AtMostOnce()), func(ctx context.Context, _ *asynq.Task) error {
				_, ok := guard.Earlier(ctx)
				assert.False(t, ok)
				runs++
				return nil
			}))
		}
		assert.Equal(t, 1, runs)
	})
}

// A run that shares its deadline with the task notes its end like any other. One key does not acknowledge the work of
// another type of task.
func TestOnce_WithADeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, g *rig) {
		rule := orders().Once(time.Hour)
		assert.Same(t, errOwn, g.run(time.Minute, rule, func(context.Context, *asynq.Task) error { return errOwn }))
		assert.NoError(t, g.run(time.Minute, rule, succeed))
		assert.NoError(t, g.run(time.Minute, rule, never))
		err := guardasynq.Middleware(g.Guard, rule)(asynq.HandlerFunc(never)).
			ProcessTask(t.Context(), asynq.NewTask("order:refund", []byte(`{"order_id":7}`)))
		assert.ErrorIs(t, err, guard.ErrOtherInput)
		assert.ErrorIs(t, err, asynq.SkipRetry)
		assert.NotContains(t, err.Error(), "order:7")
	})
}

// What a strategy makes of a busy lock: of nothing else, not of what the handler returns, an outage, or the end of ctx.
func TestStrategy_Strategies(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[guardasynq.Strategy][2]bool{
		guardasynq.Retry: {false, false}, guardasynq.SkipRun: {true, false}, guardasynq.Archive: {false, true},
	} {
		bubble(t, func(t *testing.T, g *rig) {
			means := func(err, is error, revoke, archive bool) {
				t.Helper()
				assert.ErrorIs(t, err, is)
				assert.Equal(t, revoke, errors.Is(err, asynq.RevokeTask), "%v", err)
				assert.Equal(t, archive, errors.Is(err, asynq.SkipRetry), "%v", err)
			}
			var seen error
			rule := orders(guard.NoWait()).BusyStrategy(strategy).OnError(func(_ context.Context, task *asynq.Task, err error) error {
				assert.Equal(t, "order:charge", task.Type())
				seen = err
				return err
			})
			held := hold(t, g.Guard)
			err := g.run(0, rule, never)
			assert.Equal(t, err, seen)
			means(err, guard.ErrBusy, want[0], want[1])
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error)
			go func() {
				result <- process(ctx, guardasynq.Middleware(g.Guard, orders(guard.Wait(guard.Forever)).BusyStrategy(strategy)), never)
			}()
			synctest.Wait()
			cancel()
			means(<-result, context.Canceled, false, false)
			release(t, held)
			own := &guard.BusyError{Name: "own"}
			assert.Same(t, own, g.run(0, rule, func(context.Context, *asynq.Task) error { return own }))
			g.store.Fail(errOwn)
			means(g.run(0, rule, never), guard.ErrStore, false, false)
			require.NoError(t, g.Close())
			means(g.run(0, rule, never), guard.ErrClosed, false, false)
		})
	}
}

func TestMiddleware_OnErrorDecides(t *testing.T) {
	t.Parallel()
	var got []error
	mw := guardasynq.Middleware(nil, orders().OnError(func(_ context.Context, _ *asynq.Task, err error) error {
		got = append(got, err)
		return nil
	}))
	assert.NoError(t, process(t.Context(), mw, never))
	ctx := guard.WithGuard(t.Context(), guardtest.NewGuard(t))
	assert.ErrorIs(t, process(ctx, mw, func(context.Context, *asynq.Task) error { return errOwn }), errOwn)
	require.Len(t, got, 1, "only for guard's errors")
	assert.ErrorIs(t, got[0], guard.ErrNoGuard)
}

// What the handler returns is what asynq gets, whatever became of the lock. One Skip is enough.
func TestMiddleware_TheHandlersErrorComesBackAlsoWhenItsLockWasLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, g *rig) {
		assert.Same(t, errOwn, g.run(0, orders(), func(ctx context.Context, _ *asynq.Task) error {
			g.store.Drop("order:7")
			<-ctx.Done()
			return errOwn
		}))
		rule := orders().Skip(func(context.Context, *asynq.Task) bool { return false }).
			Skip(func(_ context.Context, t *asynq.Task) bool { return t.Type() == "order:charge" })
		assert.NoError(t, g.run(0, rule, func(ctx context.Context, _ *asynq.Task) error {
			_, ok := guard.FromContext(ctx)
			assert.False(t, ok)
			return nil
		}))
	})
}

// A task is given up that will never have a key. A key function of one's own says so by itself.
func TestKey_WhatNeverHasAKeyIsGivenUp(t *testing.T) {
	t.Parallel()
	own := func(err error) guardasynq.Rule {
		return guardasynq.LockFunc(func(context.Context, *asynq.Task) (string, error) { return "", err })
	}
	bubble(t, func(t *testing.T, g *rig) {
		for _, row := range []struct {
			rule    guardasynq.Rule
			givenUp bool
		}{
			{own(errOwn), false},
			{own(fmt.Errorf("bad: %w", asynq.SkipRetry)), true},
			{guardasynq.Lock("{task:id}"), false}, // there is no server: not the task's fault
			{guardasynq.Lock("{task:queue}"), false},
			{guardasynq.Lock("{nothing}"), true},
		} {
			err := g.run(0, row.rule, never)
			assert.ErrorIs(t, err, guard.ErrKey)
			assert.Equal(t, row.givenUp, errors.Is(err, asynq.SkipRetry), err)
		}
		err := guardasynq.Middleware(g.Guard, guardasynq.Lock("{header:Tenant}"))(asynq.HandlerFunc(never)).
			ProcessTask(t.Context(), asynq.NewTaskWithHeaders("order:pay", nil, map[string]string{"tenant": "acme"}))
		assert.EqualError(t, err, "guard: invalid lock key: placeholder {header:Tenant}: missing or empty: skip retry for the task")
	})
}

func mustKey(tb testing.TB, template string) guardasynq.KeyFunc {
	tb.Helper()
	key, err := guardasynq.ParseKey(template)
	require.NoError(tb, err)
	return key
}

func TestKey_KeysOfTasks(t *testing.T) {
	t.Parallel()
	task := asynq.NewTaskWithHeaders("order:pay", []byte(`{"order_id":42,"a":{"b":"x:y"}}`), map[string]string{"tenant": "acme"})
	for template, want := range map[string]string{
		"order:{order_id}": "order:42", "{a.b}": "x%3Ay", "{header:tenant}:{order_id}": "acme:42", "{task:type}": "order%3Apay", "all": "all",
	} {
		key, err := mustKey(t, template)(t.Context(), task)
		assert.NoError(t, err, template)
		assert.Equal(t, want, key)
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

func TestAnnotate_LongestPatternWins(t *testing.T) {
	t.Parallel()
	recorder := &guardtest.Recorder{}
	always := func(context.Context, *asynq.Task) bool { return true }
	mw := guardasynq.Annotate(guardtest.NewGuard(t, guard.Observe(recorder)), guardasynq.Tasks{
		"order:":        guardasynq.Lock("order:{id}"),
		"order:charge":  guardasynq.Lock("charge:{id}", guard.Name("charges")),
		"order:free":    guardasynq.Lock("free").Skip(always),
		"order:refund:": guardasynq.LockFunc(func(_ context.Context, t *asynq.Task) (string, error) { return t.Type(), nil }),
	})
	for kind, want := range map[string]guard.Lock{
		"order:pay":        {Key: "order:7", Name: "order:"},
		"order:":           {Key: "order:7", Name: "order:"},
		"order:charge":     {Key: "charge:7", Name: "charges"},
		"order:charge:now": {Key: "charge:7", Name: "charges"},
		"order:free":       {},
		"order:refund":     {Key: "order:7", Name: "order:"},
		"order:refund:x":   {Key: "order:refund:x", Name: "order:refund:"},
		"order":            {},
		"Order:pay":        {},
	} {
		before := len(recorder.Observations("WaitStart"))
		ctx := t.Context()
		assert.Same(t, errOwn, mw(asynq.HandlerFunc(func(got context.Context, _ *asynq.Task) error {
			assert.True(t, strings.HasPrefix(kind, "order:") || got == ctx, "other tasks are untouched")
			return errOwn
		})).ProcessTask(ctx, asynq.NewTask(kind, []byte(`{"id":7}`))))
		if waits := recorder.Observations("WaitStart")[before:]; want.Key != "" {
			assert.Equal(t, want, waits[0].Lock, kind)
		} else {
			assert.Empty(t, waits, kind)
		}
	}
}

func TestAnnotate_RulesAreValues(t *testing.T) {
	t.Parallel()
	rule := guardasynq.Lock("a").And("b")
	_ = rule.And("c").Skip(func(context.Context, *asynq.Task) bool { return true }).BusyStrategy(guardasynq.Archive)
	tasks := guardasynq.Tasks{"first": rule.And("d"), "second": rule.And("e")}
	mw := guardasynq.Annotate(guardtest.NewGuard(t), tasks)
	clear(tasks)
	for kind, want := range map[string]string{"first": "a b d ", "second": "a b e "} {
		assert.NoError(t, mw(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			held := ""
			for _, key := range []string{"a", "b", "c", "d", "e"} {
				if _, ok := guard.Held(ctx, key); ok {
					held += key + " "
				}
			}
			assert.Equal(t, want, held)
			return nil
		})).ProcessTask(t.Context(), asynq.NewTask(kind, nil)))
	}
}

func TestRule_MisuseIsRefusedAtConstruction(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]guardasynq.Rule{
		"no KeyFunc":                   guardasynq.LockFunc(nil),
		"guard: Wait -1ns is negative": orders(guard.Wait(-1)),
		"BusyStrategy 3 is none of Retry, SkipRun, Archive":                             orders().BusyStrategy(3),
		"BusyStrategy -1 is none of Retry, SkipRun, Archive":                            orders().BusyStrategy(-1),
		"guard: keep 0s is outside 1ms to 8784h0m0s":                                    orders().Once(0),
		"guard: MaxResult 0 bytes is outside 1 to 1048576":                              orders().Once(time.Hour, guard.MaxResult(0)),
		"Once needs one key, And adds others":                                           orders().Once(time.Hour).And("stock"),
		"guard: Limit does not go with Once: one call runs, the others get its result":  orders(guard.Limit(2)).Once(time.Hour),
		"guard: Shared does not go with Once: one call runs, the others get its result": orders().Once(time.Hour, guard.Shared()),
	} {
		assert.PanicsWithValue(t, "guardasynq: "+want, func() { guardasynq.Middleware(nil, rule) })
		assert.PanicsWithValue(t, `guardasynq: row "order:": `+want, func() { guardasynq.Annotate(nil, guardasynq.Tasks{"order:": rule, "z": {}}) })
	}
	for _, rule := range []guardasynq.Rule{guardasynq.Rule{}.And("a"), guardasynq.Rule{}.Once(time.Hour)} {
		assert.PanicsWithValue(t, "guardasynq: no KeyFunc", func() { guardasynq.Middleware(nil, rule) })
	}
	assert.PanicsWithValue(t, `guardasynq: row " ": it is blank`, func() { guardasynq.Annotate(nil, guardasynq.Tasks{" ": orders(), "z": {}}) })
	assert.NotPanics(t, func() {
		guardasynq.Middleware(nil, orders(nil).Skip(nil).OnError(nil))
		guardasynq.Middleware(nil, orders().Once(0).Once(time.Hour, nil))
	})
	for _, mw := range []asynq.MiddlewareFunc{guardasynq.Middleware(nil, orders()), guardasynq.Annotate(nil, nil)} {
		assert.PanicsWithValue(t, "guardasynq: no handler", func() { mw(nil) })
		assert.PanicsWithValue(t, "guardasynq: no handler", func() { mw(asynq.HandlerFunc(nil)) })
	}
}

func TestCheck_NamesRowsThatNoTaskHas(t *testing.T) {
	t.Parallel()
	const none = `guardasynq: row "%s": no task of the given types has it`
	tasks := guardasynq.Tasks{
		"order:": orders(), "order:charge": guardasynq.Lock("charge:{id}"), "report:build": guardasynq.Lock("report"), "repotr:": guardasynq.Lock("report"),
	}
	assert.EqualError(t, guardasynq.Check([]string{"order:pay", "order:charge:now", "report:", "mail:send"}, tasks),
		fmt.Sprintf(none+"\n"+none, "report:build", "repotr:"))
	delete(tasks, "repotr:")
	assert.NoError(t, guardasynq.Check([]string{"order:pay", "order:charge", "report:build:daily"}, tasks))
	assert.EqualError(t, guardasynq.Check([]string{"order:charge", "report:build"}, tasks), fmt.Sprintf(none, "order:"), "each has a longer row")
	assert.EqualError(t, guardasynq.Check([]string{" "}, guardasynq.Tasks{" ": {}}), `guardasynq: row " ": it is blank`)
	assert.ErrorContains(t, guardasynq.Check(nil, tasks), `row "order:"`)
	assert.NoError(t, guardasynq.Check(nil, nil))
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
		_ = guardasynq.Annotate(guardtest.NewGuard(t), tasks)(asynq.HandlerFunc(succeed)).ProcessTask(t.Context(), task)
		if picked != want {
			t.Fatalf("%q, %q: the table picks %q, the mux %q", patterns, kind, picked, want)
		}
	})
}

func TestServer_ConfigureCountsOnlyWhatRan(t *testing.T) {
	t.Parallel()
	cfg := guardasynq.Configure(asynq.Config{Concurrency: 3})
	assert.Equal(t, 3, cfg.Concurrency)
	for _, row := range []struct {
		err     error
		failure bool          // with asynq's own delay
		delay   time.Duration // at least, and less than twice that
	}{
		{&guard.BusyError{RetryAfter: 3 * time.Second}, false, 3 * time.Second},
		{fmt.Errorf("own: %w", &guard.BusyError{}), false, time.Second},
		{&guard.StoreError{Err: errOwn}, false, time.Second},
		{guard.ErrClosed, false, time.Second},
		{&guard.LostError{Cause: guard.ErrClosed}, true, 15 * time.Second},
		{&guard.KeyError{Err: errOwn}, true, 15 * time.Second},
		{guard.ErrNoGuard, true, 15 * time.Second},
		{errOwn, true, 15 * time.Second},
	} {
		assert.Equal(t, row.failure, cfg.IsFailure(row.err), "%v", row.err)
		for range 20 {
			delay := cfg.RetryDelayFunc(0, row.err, task())
			assert.GreaterOrEqual(t, delay, row.delay, "%v", row.err)
			assert.True(t, row.failure || delay < 2*row.delay, "%v", row.err)
		}
	}
	assert.False(t, cfg.IsFailure(nil))

	cfg = guardasynq.Configure(asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, errOwn) },
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) * time.Hour },
	})
	assert.False(t, cfg.IsFailure(errOwn))
	assert.True(t, cfg.IsFailure(errors.ErrUnsupported))
	assert.False(t, cfg.IsFailure(guard.ErrClosed))
	assert.Equal(t, 2*time.Hour, cfg.RetryDelayFunc(2, errOwn, task()))
	assert.Less(t, cfg.RetryDelayFunc(2, guard.ErrBusy, task()), 2*time.Second)
}
