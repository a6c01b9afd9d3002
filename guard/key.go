package guard

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// MaxKeyLength is the longest key that can be locked, in bytes.
const MaxKeyLength = 512

// KeyFunc names what a call locks. Its error, or its panic, becomes a KeyError and
// nothing runs. It is called once per call, before anything is sent to Redis, and may
// be called from many goroutines at a time.
type KeyFunc func(ctx context.Context) (string, error)

// Key is the KeyFunc of a literal key: any non-empty UTF-8 string of at most
// MaxKeyLength bytes.
func Key(key string) KeyFunc {
	return func(context.Context) (string, error) { return key, nil }
}

// Keyf is the KeyFunc of a formatted key, as fmt.Sprintf makes it, except that what
// comes from a string, a fmt.Stringer or any other argument that is not a plain number
// or bool is escaped as in JoinKey: ("a:b", "c") and ("a", "b:c") never spell the same
// key. An argument that prints as nothing, or that does not fit its verb, is a
// KeyError.
func Keyf(format string, args ...any) KeyFunc {
	return func(context.Context) (string, error) {
		var empty bool
		parts := make([]any, len(args))
		for i, arg := range args {
			parts[i] = keyPart(arg, &empty)
		}
		key := fmt.Sprintf(format, parts...)
		switch {
		case empty:
			return "", &KeyError{Reason: "an argument of Keyf is empty"}
		case strings.Contains(key, "%!"):
			return "", &KeyError{Reason: "an argument of Keyf does not fit the format"}
		}
		return key, nil
	}
}

// JoinKey joins parts with ':' after escaping ':' as %3A and '%' as %25 in each, so
// that different parts never make the same key. An empty part is joined like any other:
// where it stands for a value that is missing, return an error instead.
func JoinKey(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = keyEscaper.Replace(part)
	}
	return strings.Join(escaped, ":")
}

var keyEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// keyPart wraps an argument of Keyf so that its text is escaped. Plain numbers and
// bools hold nothing to escape, and as widths ('*') they must stay what they are.
func keyPart(arg any, empty *bool) any {
	if _, ok := arg.(fmt.Stringer); !ok {
		switch kind := reflect.ValueOf(arg).Kind(); {
		case kind >= reflect.Bool && kind <= reflect.Complex128:
			return arg
		}
	}
	return escapedArg{arg, empty}
}

type escapedArg struct {
	arg   any
	empty *bool
}

func (e escapedArg) Format(state fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(state, verb), e.arg)
	if strings.Contains(text, "%!") {
		_, _ = state.Write([]byte(text)) // Keyf looks for this mark
		return
	}
	if text == "" || text == "<nil>" {
		*e.empty = true
	}
	_, _ = state.Write([]byte(keyEscaper.Replace(text)))
}

// resolveKey runs a key function and checks what it says.
func resolveKey(ctx context.Context, fn KeyFunc) (key string, err error) {
	if fn == nil {
		return "", &KeyError{Reason: "no key function"}
	}
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = fmt.Errorf("%v", p)
			}
			key, err = "", &KeyError{Reason: "key function panicked", Err: cause}
		}
	}()
	key, err = fn(ctx)
	if err != nil {
		if known, ok := err.(*KeyError); ok { //nolint:errorlint // only a bare one is passed on as it is
			return "", known
		}
		return "", &KeyError{Key: key, Reason: "key function failed", Err: err}
	}
	return key, checkKey(key)
}

func checkKey(key string) error {
	switch {
	case key == "":
		return &KeyError{Reason: "empty"}
	case len(key) > MaxKeyLength:
		return &KeyError{Key: key, Reason: fmt.Sprintf("%d bytes, the longest is %d", len(key), MaxKeyLength)}
	case !utf8.ValidString(key):
		return &KeyError{Key: key, Reason: "not UTF-8"}
	}
	return nil
}
