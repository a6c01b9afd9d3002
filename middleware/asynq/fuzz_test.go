package guardasynq_test

import (
	"encoding/json"
	"errors"
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
		for _, seed := range []string{`{"order_id":42}`, `{"a":{"b":1}}`, `{"a":"\ud800"}`, `{"a":}`, ``, `{"a":1,"a":2}`, `{"a":-}`} {
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
	key := mustKey(f, "order:{a}:{b.c}:{header:h}")
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
