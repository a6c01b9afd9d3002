package tasklock_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/middleware/internal/locking"
	"github.com/redlatch/redlatch/middleware/internal/tasklock"
)

// keyOf makes the key function of a template.
func keyOf(tb testing.TB, template string) func(payload []byte) (string, error) {
	tb.Helper()
	key, err := tasklock.New("guardtasks", 0).ParseKey(template)
	require.NoError(tb, err)
	return func(payload []byte) (string, error) {
		return key(context.Background(), tasklock.Task{Payload: payload})
	}
}

const payload = `{
	"order_id": 42, "big": 12345678901234567890123, "negative": -7, "text": "a:b%", "flag": true, "no": false,
	"a": {"b": {"c": "deep"}, "n": 1, "zero": 0 , "last": 9 }, "ü": "umlaut", "escaped": "\u00fc\n",
	"empty": "", "null": null, "list": [1], "fraction": 1.0, "exponent": 1e3, "zero": -0, "bytes": "` + "\xff" + `"
}`

func TestField_KeysOfPayloads(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"order:{order_id}":       "order:42",
		"{big}":                  "12345678901234567890123",
		"{negative}:{flag}:{no}": "-7:true:false",
		"{a.zero}:{a.last}":      "0:9",
		"{text}":                 "a%3Ab%25",
		"{a.b.c}:{a.n}":          "deep:1",
		"{ü}:{escaped}":          "umlaut:ü\n",
	} {
		key, err := keyOf(t, template)([]byte(payload))
		assert.NoError(t, err, template)
		assert.Equal(t, want, key)
	}
}

func TestField_UnusablePayloads(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"{other}":    "placeholder {other}: missing or empty",
		"{a.other}":  "placeholder {a.other}: missing or empty",
		"{empty}":    "missing or empty",
		"{null}":     "neither a string, an integer nor a bool",
		"{list}":     "neither a string, an integer nor a bool",
		"{a}":        "neither a string, an integer nor a bool",
		"{fraction}": "a number, but not an integer",
		"{exponent}": "a number, but not an integer",
		"{zero}":     "a number, but not an integer",
		"{bytes}":    "not UTF-8",
		"{text.x}":   "not in a JSON object",
		"{list.0}":   "not in a JSON object",
		"{other.x}":  "missing or empty",
	} {
		_, err := keyOf(t, template)([]byte(payload))
		assert.ErrorContains(t, err, want, template)
		assertUnusable(t, err, template)
	}
	for _, payload := range []string{"", "null", "7", `"x"`, "[{}]", "{", `{"order_id":1} trailing secret`, "\x00"} {
		_, err := keyOf(t, "{order_id}")([]byte(payload))
		assert.EqualError(t, err, "guard: invalid lock key: placeholder {order_id}: not in a JSON object", payload)
		assertUnusable(t, err, payload)
	}
	_, err := keyOf(t, "{order_id}")([]byte(`{"order_id":"` + strings.Repeat("x", 600) + `"}`))
	assertUnusable(t, err, "a long one")
}

func TestField_PathsHaveNoEmptyNames(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"a..b", ".a", "a."} {
		_, err := tasklock.New("guardtasks", 0).ParseKey("{" + path + "}")
		assert.ErrorContains(t, err, `column 2: "`+path+`" is not the path of a field`)
		assert.Empty(t, tasklock.Field([]byte(payload), path))
		assert.Empty(t, tasklock.Field([]byte(`"text"`), path))
	}
}

// assertUnusable asserts that err blames the payload.
func assertUnusable(t *testing.T, err error, of string) {
	t.Helper()
	assert.ErrorIs(t, err, guard.ErrKey, of)
	value := locking.ValueErrorIn(err)
	if assert.NotNil(t, value, of) {
		assert.False(t, value.Unfit, of)
	}
}

// A payload may have two names that a handler takes for one. The lock and the handler must not
// use different ones.
func TestField_FieldsThatAreThereTwiceAreRefused(t *testing.T) {
	t.Parallel()
	key := keyOf(t, "{order_id}:{customer.task}")
	for _, payload := range []string{
		`{"order_id":"7","ORDER_ID":"9","customer":{"task":"8"}}`,
		`{"ORDER_ID":"7","order_id":"9","customer":{"task":"8"}}`,
		`{"order_id":"7","order_id":"7","customer":{"task":"8"}}`,
		`{"order_id":"7","order_id":null,"customer":{"task":"8"}}`,
		`{"order_id":"7","order\u005fid":"9","customer":{"task":"8"}}`,
		`{"order_id":"7","customer":{"task":"8","TASK":"9"}}`,
		`{"order_id":"7","customer":{"task":"8","ta\u017fk":"9"}}`,
		`{"order_id":"7","customer":{"task":"8"},"Customer":{}}`,
		`{"order_id":"7","customer":{"task":"8"},"customer":{"task":"9"}}`,
	} {
		_, err := key([]byte(payload))
		assert.ErrorContains(t, err, "there twice", payload)
		assertUnusable(t, err, payload)
	}
	// Fields that are no part of the key may be there several times.
	got, err := key([]byte(`{"x":1,"X":2,"order_id":"7","customer":{"y":1,"Y":1,"task":"8"}}`))
	assert.NoError(t, err)
	assert.Equal(t, "7:8", got)
}

// FuzzField compares with encoding/json, as a handler decodes into a struct: a key has the value that the handler gets.
func FuzzField(f *testing.F) {
	for _, seed := range []string{
		payload, `{"task":{"b":"1"}}`, ` { "task" : [ { "task" : "]" } , "\\" ] , "tas\u006b" : "\"" }`, `{"task":1,"task":2}`, `{}`,
		`{"x":"\\","task":"}"}`, `{"task":{"b":{},"b":true}}`, `["task"]`, `7`, `{"task":-12,"":""}`, `{"TASK":{"B":"1"}}`, `{"task":1,"Task":2}`,
		`{"ta\u017fk":"8"}`, `{"tas` + "\u212a" + `":{"b":"8"}}`, `{"tasks":"9","task":"8"}`, // the long s, the sign for Kelvin
	} {
		f.Add([]byte(seed))
	}
	outer, inner := keyOf(f, "{task}"), keyOf(f, "{task.b}")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var object struct{ Task json.RawMessage }
		var nested struct{ B json.RawMessage }
		_ = json.Unmarshal(payload, &object)
		_ = json.Unmarshal(object.Task, &nested)
		compare(t, payload, outer, object.Task)
		compare(t, payload, inner, nested.B)
	})
}

// compare fails if key returns a key that is not of the value.
func compare(t *testing.T, payload []byte, key func([]byte) (string, error), value json.RawMessage) {
	t.Helper()
	got, err := key(payload)
	if err != nil {
		return
	}
	var decoded any
	_ = json.Unmarshal(value, &decoded)
	want := string(value)
	switch decoded := decoded.(type) {
	case string:
		want = guard.JoinKey(decoded)
	case bool, float64:
	default:
		want = "no key"
	}
	if got != want {
		t.Fatalf("%q gives %q instead of %q", payload, got, want)
	}
}
