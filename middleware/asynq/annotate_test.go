package guardasynq_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// lockOf runs a task of a type and says under which key and name.
func lockOf(t *testing.T, mw func(*guard.Guard) asynq.MiddlewareFunc, kind string) (key, name string) {
	t.Helper()
	recorder := &guardtest.Recorder{}
	g := guardtest.NewGuard(t, guard.Observe(recorder))
	err := mw(g)(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		if lease, ok := guard.FromContext(ctx); ok {
			key = lease.Key()
		}
		return nil
	})).ProcessTask(t.Context(), asynq.NewTask(kind, []byte(`{"id":7}`)))
	require.NoError(t, err)
	if key != "" {
		name = recorder.Observations("WaitStart")[0].Lock.Name
	}
	return key, name
}

func TestAnnotate_LongestPatternWins(t *testing.T) {
	t.Parallel()
	always := func(context.Context, *asynq.Task) bool { return true }
	mw := func(g *guard.Guard) asynq.MiddlewareFunc {
		return guardasynq.Annotate(g, guardasynq.Tasks{
			"order:":        guardasynq.Lock("order:{id}"),
			"order:charge":  guardasynq.Lock("charge:{id}", guard.Name("charges")),
			"order:free":    guardasynq.Lock("free").Skip(always),
			"order:refund:": guardasynq.LockFunc(func(_ context.Context, t *asynq.Task) (string, error) { return t.Type(), nil }),
		})
	}
	for kind, want := range map[string][2]string{
		"order:pay":        {"order:7", "order:"},
		"order:":           {"order:7", "order:"},
		"order:charge":     {"charge:7", "charges"},
		"order:charge:now": {"charge:7", "charges"},
		"order:free":       {"", ""},
		"order:refund":     {"order:7", "order:"},
		"order:refund:x":   {"order:refund:x", "order:refund:"},
		"order":            {"", ""},
		"Order:pay":        {"", ""},
		"report":           {"", ""},
	} {
		key, name := lockOf(t, mw, kind)
		assert.Equal(t, want, [2]string{key, name}, kind)
	}
}

func TestAnnotate_OtherTasksAreUntouched(t *testing.T) {
	t.Parallel()
	mw := guardasynq.Annotate(guardtest.NewGuard(t), guardasynq.Tasks{"other": guardasynq.Lock("k")})
	assert.Same(t, errOwn, process(t.Context(), mw, func(ctx context.Context, _ *asynq.Task) error {
		assert.Equal(t, t.Context(), ctx)
		return errOwn
	}))
}

func TestAnnotate_RulesAreValues(t *testing.T) {
	t.Parallel()
	rule := guardasynq.Lock("a").And("b")
	_ = rule.And("c").Skip(func(context.Context, *asynq.Task) bool { return true }).BusyStrategy(guardasynq.Archive)
	first, second := rule.And("d"), rule.And("e")
	tasks := guardasynq.Tasks{"first": first, "second": second}
	g := guardtest.NewGuard(t)
	mw := guardasynq.Annotate(g, tasks)
	clear(tasks)
	for kind, want := range map[string]string{"first": "d", "second": "e"} {
		assert.NoError(t, mw(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
			var held []string
			for _, key := range []string{"a", "b", "c", "d", "e"} {
				if _, ok := guard.Held(ctx, key); ok {
					held = append(held, key)
				}
			}
			assert.Equal(t, []string{"a", "b", want}, held)
			return nil
		})).ProcessTask(t.Context(), asynq.NewTask(kind, nil)))
	}
}

func TestAnnotate_MisuseOfTablesIsRefused(t *testing.T) {
	t.Parallel()
	for want, tasks := range map[string]guardasynq.Tasks{
		`guardasynq: row " ": it is blank`:                                        {" ": guardasynq.Lock("k"), "z": {}},
		`guardasynq: row "a": no KeyFunc`:                                         {"a": {}, "b": {}},
		`guardasynq: row "a": guard: Wait -1ns is negative`:                       {"a": guardasynq.Lock("k", guard.Wait(-1))},
		`guardasynq: row "a": BusyStrategy 3 is none of Retry, SkipRun, Archive`:  {"a": guardasynq.Lock("k").BusyStrategy(3)},
		`guardasynq: row "a": BusyStrategy -1 is none of Retry, SkipRun, Archive`: {"a": guardasynq.Lock("k").BusyStrategy(-1)},
	} {
		assert.PanicsWithValue(t, want, func() { guardasynq.Annotate(nil, tasks) })
	}
	assert.Panics(t, func() { guardasynq.Lock("{") })
	assert.NotPanics(t, func() { guardasynq.Annotate(nil, nil) })
	for _, mw := range []asynq.MiddlewareFunc{lockOrders(nil), guardasynq.Annotate(nil, nil)} {
		assert.PanicsWithValue(t, "guardasynq: no handler", func() { mw(nil) })
		assert.PanicsWithValue(t, "guardasynq: no handler", func() { mw(asynq.HandlerFunc(nil)) })
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
		_ = guardasynq.Annotate(guardtest.NewGuard(t), tasks)(asynq.HandlerFunc(succeed)).ProcessTask(t.Context(), task)
		if picked != want {
			t.Fatalf("%q, %q: the table picks %q, the mux %q", patterns, kind, picked, want)
		}
	})
}
