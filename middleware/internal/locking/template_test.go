package locking

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// values answers {name} and {v:name} from a map, and {word} with its own name.
type values map[string]string

func testGrammar() Grammar[values] {
	bind := func(name string) (Extract[values], error) {
		if name == "bad" {
			return nil, errors.New("is bad")
		}
		return func(v values) (string, error) { return v[name], nil }, nil
	}
	return Grammar[values]{
		Words: map[string]Extract[values]{"word": func(values) (string, error) { return "word", nil }},
		Kinds: map[string]Bind[values]{"v": bind},
		Bare:  bind,
	}
}

func TestParse_PointsAtTheColumn(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"":                               `column 1: is empty`,
		"order:{id":                      `column 7: '{' without '}'`,
		"order:id}":                      `column 9: '}' without '{'`,
		"}":                              `column 1: '}' without '{'`,
		"order:{i{d}}":                   `column 9: '{' inside a placeholder`,
		"order:{}":                       `column 8: placeholder without a name`,
		"order:{v:}":                     `column 8: placeholder without a name behind "v:"`,
		"order:{w:id}":                   `column 8: no placeholder is of the kind "w"`,
		"order:{:id}":                    `column 8: no placeholder is of the kind ""`,
		"é:{bad}":                        `column 5: is bad`,
		"order:{v:bad}":                  `column 8: is bad`,
		"{a}{b}":                         `column 4: {b} needs a ':' between it and {a}`,
		"x:{a}-{b}":                      `column 7: {b} needs a ':' between it and {a}`,
		"ok:\xff:{a}":                    `column 4: not UTF-8`,
		"ok:{\xff}":                      `column 5: not UTF-8`,
		strings.Repeat("x", 513):         `column 513: every key is longer than 512 bytes`,
		strings.Repeat("x", 512) + "{a}": `column 515: every key is longer than 512 bytes`,
	} {
		parsed, err := Parse(template, testGrammar())
		assert.Nil(t, parsed, template)
		assert.EqualError(t, err, fmt.Sprintf("key template %q: %s", template, want))
	}
}

func TestParse_Keys(t *testing.T) {
	t.Parallel()
	src := values{"a": "A", "b": "x:y", "c": "100%", "name.of-it": "ü"}
	for template, want := range map[string]string{
		"global":                 "global",
		"{a}":                    "A",
		"order:{a}":              "order:A",
		"order:{v:a}:tail":       "order:A:tail",
		"{a}:{b}":                "A:x%3Ay",
		"{a}-:-{c}":              "A-:-100%25",
		"{word}:{name.of-it}":    "word:ü",
		"{a}:{a}":                "A:A",
		"a b\x00\n:{a}":          "a b\x00\n:A",
		strings.Repeat("x", 512): strings.Repeat("x", 512),
		"\ufffd":                 "\ufffd", // which is a character, too
	} {
		parsed, err := Parse(template, testGrammar())
		require.NoError(t, err, template)
		key, err := parsed.Key(src)
		assert.NoError(t, err, template)
		assert.Equal(t, want, key)
	}
}

func TestTemplate_KeyErrorsNameThePlaceholderAndNeverAValue(t *testing.T) {
	t.Parallel()
	parsed, err := Parse("tenant:{v:tenant}:order:{id}", testGrammar())
	require.NoError(t, err)
	for name, row := range map[string]struct {
		src  values
		want string
	}{
		"missing":   {values{"id": "secret"}, "guard: invalid lock key: placeholder {v:tenant}: missing or empty"},
		"empty":     {values{"tenant": "secret", "id": ""}, "guard: invalid lock key: placeholder {id}: missing or empty"},
		"not UTF-8": {values{"tenant": "secret", "id": "secret\xff"}, "guard: invalid lock key: placeholder {id}: not UTF-8"},
		"too long": {
			values{"tenant": "secret", "id": strings.Repeat("secret", 100)},
			"guard: invalid lock key: placeholder values: give a key of 620 bytes, the longest is 512",
		},
	} {
		key, err := parsed.Key(row.src)
		assert.Empty(t, key, name)
		assert.EqualError(t, err, row.want, name)
		var bad *guard.KeyError
		if assert.ErrorAs(t, err, &bad, name) {
			assert.Empty(t, bad.Key, name)
		}
		if value := ValueErrorIn(err); assert.NotNil(t, value, name) {
			assert.False(t, value.Unfit, name)
		}
	}
}

// asked is a source that remembers what it was asked for.
type asked struct {
	values [4]string
	used   map[int]string
}

func fuzzGrammar() Grammar[*asked] {
	bind := func(name string) (Extract[*asked], error) {
		at := 0
		for _, c := range []byte(name) {
			at = (at*31 + int(c)) % 4
		}
		return func(a *asked) (string, error) {
			a.used[at] = a.values[at]
			return a.values[at], nil
		}, nil
	}
	return Grammar[*asked]{Kinds: map[string]Bind[*asked]{"v": bind, "w": bind}, Bare: bind}
}

// FuzzTemplate checks that no template gives one key to two different tuples of values,
// and no key that cannot be locked.
func FuzzTemplate(f *testing.F) {
	f.Add("order:{a}", "1", "2", "3", "4", "2", "1", "3", "4")
	f.Add("{a}:{b}:{c}:{d}", "x:y", "z", "%", "%3A", "x", "y:z", "%25", ":")
	f.Add("a{a}%3A:b{b}c", "b", "b", "bc", "", "bb", "", "c", "%")
	f.Add("{a}{b}", "1", "11", "", "", "11", "1", "", "")
	f.Add("{v:a}:%:{w:a}", "\xff", "\x00", "ü", "{", "}", "\xfe", "%2", "5")
	f.Fuzz(func(t *testing.T, template, a1, a2, a3, a4, b1, b2, b3, b4 string) {
		parsed, err := Parse(template, fuzzGrammar())
		if err != nil {
			return
		}
		a := &asked{values: [4]string{a1, a2, a3, a4}, used: map[int]string{}}
		b := &asked{values: [4]string{b1, b2, b3, b4}, used: map[int]string{}}
		keyA, errA := parsed.Key(a)
		keyB, errB := parsed.Key(b)
		for _, err := range []error{errA, errB} {
			if err != nil && (!errors.Is(err, guard.ErrKey) || ValueErrorIn(err) == nil) {
				t.Fatalf("%q: %v", template, err)
			}
		}
		if errA != nil || errB != nil {
			return
		}
		if keyA == "" || len(keyA) > guard.MaxKeyLength || !utf8.ValidString(keyA) {
			t.Fatalf("%q gives %q", template, keyA)
		}
		same := true
		for at, value := range a.used {
			same = same && b.used[at] == value
		}
		if same != (keyA == keyB) {
			t.Fatalf("%q: %v and %v give %q and %q", template, a.used, b.used, keyA, keyB)
		}
	})
}
