package keytemplate

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
)

// Template is a parsed template. It does not change and may be used concurrently.
type Template[S any] struct {
	parts []part[S]
	tail  string // literal text after the last placeholder
	size  int    // length of the shortest key, in bytes
}

type part[S any] struct {
	literal     string // in front of the placeholder
	placeholder string // as it stands in the template, with its braces
	extract     Extract[S]
}

// Placeholders gives the placeholders in order, without their braces: "id", "header:Name".
func (t *Template[S]) Placeholders() []string {
	all := make([]string, len(t.parts))
	for i, part := range t.parts {
		all[i] = strings.Trim(part.placeholder, "{}")
	}
	return all
}

// typicalValue is a guess at the length of a value, in bytes, to size the buffer with.
const typicalValue = 24

// Key gives the key of src. Its error is a *guard.KeyError that names the placeholder,
// never a value, and whose Err is a *ValueError or what the placeholder's Extract returned.
func (t *Template[S]) Key(src S) (string, error) {
	key := make([]byte, 0, t.size+typicalValue*len(t.parts))
	for _, part := range t.parts {
		value, err := part.extract(src)
		switch {
		case err != nil:
		case value == "":
			err = errMissing
		case !utf8.ValidString(value):
			err = errNotUTF8
		}
		if err != nil {
			return "", &guard.KeyError{Reason: "placeholder " + part.placeholder, Err: err}
		}
		key = append(key, part.literal...)
		key = append(key, guard.JoinKey(value)...)
	}
	key = append(key, t.tail...)
	if len(key) > guard.MaxKeyLength {
		reason := fmt.Sprintf("give a key of %d bytes, the longest is %d", len(key), guard.MaxKeyLength)
		return "", &guard.KeyError{Reason: "placeholder values", Err: Invalid(reason)}
	}
	return string(key), nil
}
