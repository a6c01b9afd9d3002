package keytemplate

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		"ok:{\xff}":                      `column 5: placeholder name is not UTF-8`,
		strings.Repeat("x", 513):         `column 513: every key is longer than 512 bytes`,
		strings.Repeat("x", 512) + "{a}": `column 515: every key is longer than 512 bytes`,
	} {
		parsed, err := Parse(template, testGrammar())
		assert.Nil(t, parsed, template)
		var syntax *SyntaxError
		if assert.ErrorAs(t, err, &syntax, template) {
			assert.ErrorContains(t, err, want, template)
			assert.Equal(t, template, syntax.Template)
		}
	}
}

func TestParse_Keys(t *testing.T) {
	t.Parallel()
	src := values{"a": "A", "b": "x:y", "c": "100%", "name.of-it": "ü"}
	for template, want := range map[string]string{
		"global":              "global",
		"{a}":                 "A",
		"order:{a}":           "order:A",
		"order:{v:a}:tail":    "order:A:tail",
		"{a}:{b}":             "A:x%3Ay",
		"{a}-:-{c}":           "A-:-100%25",
		"{word}:{name.of-it}": "word:ü",
		"{a}:{a}":             "A:A",
		"a b\x00\n:{a}":       "a b\x00\n:A",
	} {
		parsed, err := Parse(template, testGrammar())
		require.NoError(t, err, template)
		key, err := parsed.Key(src)
		assert.NoError(t, err, template)
		assert.Equal(t, want, key)
	}
}
