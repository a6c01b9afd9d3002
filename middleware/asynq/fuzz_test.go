package guardasynq_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch/guard"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// FuzzKey checks that any template is refused or, with any payload, gives a key that can
// be locked or a KeyError.
func FuzzKey(f *testing.F) {
	for _, template := range []string{"order:{order_id}", "{a}:{a.b}:{order_id}", "{header:tenant}:{task:type}", "{task:id}", "{", "{a..b}"} {
		for _, seed := range []string{payload, `{"a":{"b":1}}`, `{"a":"\ud800"}`, `{"a":}`, ``, `{"a":1,"a":2}`, `{"a":-}`} {
			f.Add(template, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, template string, payload []byte) {
		key, err := guardasynq.ParseKey(template)
		if err != nil {
			return
		}
		task := asynq.NewTaskWithHeaders("t", payload, map[string]string{"tenant": string(payload)})
		got, err := key(t.Context(), task)
		switch {
		case err != nil && (got != "" || !errors.Is(err, guard.ErrKey)):
			t.Fatalf("%q of %q gives %q, %v", template, payload, got, err)
		case err == nil && (got == "" || len(got) > guard.MaxKeyLength || !utf8.ValidString(got)):
			t.Fatalf("%q of %q gives the key %q", template, payload, got)
		}
	})
}

// FuzzDistinctKeys checks that different values never make one key, and that templates
// spell keys as guard.JoinKey does.
func FuzzDistinctKeys(f *testing.F) {
	f.Add("1", "2", "12", "")
	f.Add("a:b", "c", "a", "b:c")
	f.Add("%3A", "x", ":", "x")
	f.Add("ü\n", "\x00", "\ufffd", "{}")
	key := guardasynq.Key("order:{a}:{b.c}:{header:h}")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		keyOf := func(first, second string) (got, want string) {
			data, err := json.Marshal(map[string]any{"a": first, "b": map[string]string{"c": second}})
			if err != nil {
				t.Fatal(err)
			}
			got, err = key(t.Context(), asynq.NewTaskWithHeaders("t", data, map[string]string{"h": "x"}))
			if err != nil {
				return "", ""
			}
			return got, guard.JoinKey("order", first, second, "x")
		}
		if !utf8.ValidString(strings.Join([]string{a, b, c, d}, " ")) {
			t.Skip("not representable in JSON")
		}
		one, want := keyOf(a, b)
		other, _ := keyOf(c, d)
		if one != want {
			t.Fatalf("%q, %q: %q instead of %q", a, b, one, want)
		}
		if one != "" && (one == other) != (a == c && b == d) {
			t.Fatalf("%q, %q and %q, %q: %q and %q", a, b, c, d, one, other)
		}
	})
}

// FuzzField compares with what encoding/json gives a handler that decodes into a struct.
func FuzzField(f *testing.F) {
	for _, seed := range []string{
		payload, `{"a":{"b":"1"}}`, ` { "a" : [ { "a" : "]" } , "\\" ] , "\u0061" : "\"" }`, `{"a":1,"a":2}`, `{}`,
		`{"x":"\\","a":"}"}`, `{"a":{"b":{},"b":true}}`, `["a"]`, `7`, `{"a":-12,"":""}`, `{"A":{"B":"1"}}`, `{"a":1,"A":2}`,
	} {
		f.Add([]byte(seed))
	}
	outer, inner := guardasynq.Key("{a}"), guardasynq.Key("{a.b}")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var object struct{ A json.RawMessage }
		_ = json.Unmarshal(payload, &object)
		if count(payload, "a") > 1 {
			for _, key := range []guardasynq.KeyFunc{outer, inner} {
				if got, err := key(t.Context(), asynq.NewTask("t", payload)); err == nil {
					t.Fatalf("%q gives %q", payload, got)
				}
			}
			return
		}
		compare(t, payload, outer, object.A)
		var nested struct{ B json.RawMessage }
		_ = json.Unmarshal(object.A, &nested)
		if count(object.A, "b") > 1 {
			nested.B = nil
		}
		compare(t, payload, inner, nested.B)
	})
}

// count says how many names of an object are one to encoding/json.
func count(object []byte, name string) (n int) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return 0
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return n
		}
		if got, _ := token.(string); strings.EqualFold(got, name) {
			n++
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return n
		}
	}
	return n
}

// compare says whether key gives the value, if it is a string or a bool.
func compare(t *testing.T, payload []byte, key guardasynq.KeyFunc, value json.RawMessage) {
	t.Helper()
	var want any
	_ = json.Unmarshal(value, &want)
	got, err := key(t.Context(), asynq.NewTask("t", payload))
	switch want := want.(type) {
	case string:
		if err == nil && got != guard.JoinKey(want) || err != nil && want != "" && len(want) < 100 && utf8.Valid(payload) {
			t.Fatalf("%q gives %q, %v instead of %q", payload, got, err, want)
		}
	case bool:
		if got != strconv.FormatBool(want) {
			t.Fatalf("%q gives %q, %v instead of %v", payload, got, err, want)
		}
	case float64:
		if err == nil && got != string(value) {
			t.Fatalf("%q gives %q instead of %s", payload, got, value)
		}
	default:
		if err == nil {
			t.Fatalf("%q gives %q", payload, got)
		}
	}
}
