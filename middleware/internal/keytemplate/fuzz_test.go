package keytemplate

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
)

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
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Column < 1 || syntax.Column > len(template)+1 {
				t.Fatalf("%q: %v", template, err)
			}
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
