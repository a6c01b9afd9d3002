package locking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
)

// Extract returns the value of one placeholder, or "" if the source has none. Its error is made by Invalid or Unfit. It
// is called concurrently.
type Extract[S any] func(src S) (string, error)

// Bind returns the Extract of a placeholder's name, or an error if the name is malformed.
type Bind[S any] func(name string) (Extract[S], error)

// Grammar is the set of placeholders that an adapter knows.
type Grammar[S any] struct {
	Words map[string]Extract[S] // {word}
	Kinds map[string]Bind[S]    // {kind:name}
	Bare  Bind[S]               // {name}, for every name that is not a word
}

// Template makes lock keys from text with placeholders in braces, such as "tenant:{header:X-Tenant}:order:{id}". Two
// different tuples of values never make the same key: values are escaped as in guard.JoinKey, an empty value is an
// error, and there is at most one placeholder between two ':'. A Template does not change and may be used concurrently.
type Template[S any] struct {
	text  string // as given
	parts []part[S]
	tail  string // literal text after the last placeholder
	size  int    // length of the shortest key, in bytes
}

type part[S any] struct {
	literal     string // before the placeholder
	placeholder string // with its braces
	extract     Extract[S]
}

// Placeholders returns the placeholders in order, without their braces: "id", "header:Name".
func (t *Template[S]) Placeholders() []string {
	all := make([]string, len(t.parts))
	for i, part := range t.parts {
		all[i] = strings.Trim(part.placeholder, "{}")
	}
	return all
}

// Spells reports whether the template has :name as text, as routers write path values, and no placeholder of that name.
func (t *Template[S]) Spells(name string) bool {
	return strings.Contains(t.text+":", ":"+name+":") && !strings.Contains(t.text, "{"+name+"}") && !strings.Contains(t.text, ":"+name+"}")
}

// with returns t with other functions for some of its placeholders.
func (t *Template[S]) with(values map[string]Extract[S]) *Template[S] {
	filled := &Template[S]{t.text, slices.Clone(t.parts), t.tail, t.size}
	for i, name := range t.Placeholders() {
		if value := values[name]; value != nil {
			filled.parts[i].extract = value
		}
	}
	return filled
}

// typicalValue is a guess at the length of a value, in bytes. It sizes the buffer.
const typicalValue = 24

// Key returns the key of src. Its error is a *guard.KeyError that names the placeholder, and never a value. Its Err is
// a *ValueError or the error of the placeholder's Extract.
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

// ValueError says why a placeholder has no usable value. Its text never has the value.
type ValueError struct {
	Reason string
	// Unfit is set if no request of the route has a value: the template does not fit. Otherwise this request lacks it.
	Unfit bool
}

// Error returns the reason.
func (e *ValueError) Error() string { return e.Reason }

// Invalid returns the error of a value that cannot be used.
func Invalid(reason string) error { return &ValueError{Reason: reason} }

// Unfit returns the error of a placeholder without a value in any request of the route.
func Unfit(reason string) error { return &ValueError{Reason: reason, Unfit: true} }

// ValueErrorIn returns the ValueError in err, or nil.
func ValueErrorIn(err error) *ValueError {
	var found *ValueError
	if errors.As(err, &found) {
		return found
	}
	return nil
}

// Single returns the only value, or "". It refuses several values: the handler could read another value than the lock.
func Single(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", Invalid("given more than once")
}

var (
	errMissing = Invalid("missing or empty")
	errNotUTF8 = Invalid("not UTF-8")
)
