package jsonfield_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
)

// FuzzField compares with what encoding/json gives a handler that decodes into a struct.
func FuzzField(f *testing.F) {
	for _, seed := range []string{
		payload, `{"a":{"b":"1"}}`, ` { "a" : [ { "a" : "]" } , "\\" ] , "\u0061" : "\"" }`, `{"a":1,"a":2}`, `{}`,
		`{"x":"\\","a":"}"}`, `{"a":{"b":{},"b":true}}`, `["a"]`, `7`, `{"a":-12,"":""}`, `{"A":{"B":"1"}}`, `{"a":1,"A":2}`,
	} {
		f.Add([]byte(seed))
	}
	outer, inner := keyOf(f, "{a}"), keyOf(f, "{a.b}")
	f.Fuzz(func(t *testing.T, payload []byte) {
		var object struct{ A json.RawMessage }
		_ = json.Unmarshal(payload, &object)
		if count(payload, "a") > 1 {
			for _, key := range []func([]byte) (string, error){outer, inner} {
				if got, err := key(payload); err == nil {
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
func compare(t *testing.T, payload []byte, key func([]byte) (string, error), value json.RawMessage) {
	t.Helper()
	var want any
	_ = json.Unmarshal(value, &want)
	got, err := key(payload)
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
