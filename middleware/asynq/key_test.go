package guardasynq_test

import (
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

const payload = `{
	"order_id": 42, "big": 12345678901234567890123, "negative": -7, "text": "a:b%", "flag": true, "no": false,
	"a": {"b": {"c": "deep"}, "n": 1}, "ü": "umlaut", "escaped": "\u00fc\n",
	"empty": "", "null": null, "list": [1], "fraction": 1.0, "exponent": 1e3, "zero": -0, "bytes": "` + "\xff" + `"
}`

func TestKeysOfTasks(t *testing.T) {
	t.Parallel()
	task := asynq.NewTaskWithHeaders("order:pay", []byte(payload), map[string]string{"tenant": "acme"})
	for template, want := range map[string]string{
		"order:{order_id}":           "order:42",
		"{big}":                      "12345678901234567890123",
		"{negative}:{flag}:{no}":     "-7:true:false",
		"{text}":                     "a%3Ab%25",
		"{a.b.c}:{a.n}":              "deep:1",
		"{ü}:{escaped}":              "umlaut:ü\n",
		"{header:tenant}:{order_id}": "acme:42",
		"{task:type}":                "order%3Apay",
		"all":                        "all",
	} {
		key, err := guardasynq.Key(template)(t.Context(), task)
		assert.NoError(t, err, template)
		assert.Equal(t, want, key)
	}
}

func TestBadPayloadsStayBad(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{other}":         "placeholder {other}: missing or empty",
		"{a.other}":       "placeholder {a.other}: missing or empty",
		"{empty}":         "missing or empty",
		"{null}":          "neither a string, an integer nor a bool",
		"{list}":          "neither a string, an integer nor a bool",
		"{a}":             "neither a string, an integer nor a bool",
		"{fraction}":      "a number, but not an integer",
		"{exponent}":      "a number, but not an integer",
		"{zero}":          "a number, but not an integer",
		"{bytes}":         "not UTF-8",
		"{text.x}":        "not in a JSON object",
		"{list.0}":        "not in a JSON object",
		"{other.x}":       "missing or empty",
		"{header:Tenant}": "missing or empty",
	} {
		task := asynq.NewTask("order:pay", []byte(payload))
		_, err := guardasynq.Key(template)(t.Context(), task)
		assert.ErrorContains(t, err, want, template)
		assert.ErrorIs(t, err, asynq.SkipRetry, template)
		var bad *guard.KeyError
		assert.ErrorAs(t, err, &bad, template)
	}
	for _, payload := range []string{"", "null", "7", `"x"`, "[{}]", "{", `{"order_id":1} trailing secret`, "\x00"} {
		_, err := guardasynq.Key("{order_id}")(t.Context(), asynq.NewTask("t", []byte(payload)))
		assert.EqualError(t, err, "guard: invalid lock key: placeholder {order_id}: not in a JSON object: skip retry for the task", payload)
	}
	long := asynq.NewTask("t", []byte(`{"order_id":"`+strings.Repeat("x", 600)+`"}`))
	_, err := guardasynq.Key("{order_id}")(t.Context(), long)
	assert.ErrorIs(t, err, asynq.SkipRetry)
}

func TestTemplateThatNeedsAServerIsNotTheTasksFault(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"{task:id}", "{task:queue}"} {
		_, err := guardasynq.Key(template)(t.Context(), asynq.NewTask("t", nil))
		assert.ErrorIs(t, err, guard.ErrKey)
		assert.NotErrorIs(t, err, asynq.SkipRetry)
	}
}

func TestMalformedTemplates(t *testing.T) {
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
		assert.Panics(t, func() { guardasynq.Key(template) })
	}
}
