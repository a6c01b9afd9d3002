package guardasynq_test

import (
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

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
		"order:{order_id}":           "order:42",
		"{a.b}":                      "x%3Ay",
		"{header:tenant}:{order_id}": "acme:42",
		"{task:type}":                "order%3Apay",
		"all":                        "all",
	} {
		key, err := mustKey(t, template)(t.Context(), task)
		assert.NoError(t, err, template)
		assert.Equal(t, want, key)
	}
}

func TestKey_TemplateThatNeedsAServerIsNotTheTasksFault(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"{task:id}", "{task:queue}"} {
		err := process(t.Context(), guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.Lock(template)), never)
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.NotErrorIs(t, err, asynq.SkipRetry)
	}
}

// Headers are found in the spelling they were given.
func TestKey_TaskWithoutItsHeaderIsGivenUp(t *testing.T) {
	t.Parallel()
	mw := guardasynq.Middleware(guardtest.NewGuard(t), guardasynq.Lock("{header:Tenant}"))
	task := asynq.NewTaskWithHeaders("order:pay", nil, map[string]string{"tenant": "acme"})
	err := mw(asynq.HandlerFunc(never)).ProcessTask(t.Context(), task)
	assert.EqualError(t, err, "guard: invalid lock key: placeholder {header:Tenant}: missing or empty: skip retry for the task")
	assert.ErrorIs(t, err, asynq.SkipRetry)
}

func TestKey_MalformedTemplates(t *testing.T) {
	t.Parallel()
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
