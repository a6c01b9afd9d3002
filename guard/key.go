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
// comes from an argument is escaped as in JoinKey, whatever its type and verb:
// ("a:b", "c") and ("a", "b:c") never spell the same key. An argument that prints as
// nothing, or that does not fit its verb, and the verb %T are a KeyError.
func Keyf(format string, args ...any) KeyFunc {
	return func(context.Context) (string, error) {
		var found keyFaults
		parts := make([]any, len(args))
		for i, arg := range args {
			parts[i] = keyPart(arg, format, &found)
		}
		key := fmt.Sprintf(format, parts...)
		switch {
		case found.empty:
			return "", &KeyError{Reason: "an argument of Keyf is empty"}
		case found.misfit, misfits(key, format, parts), strings.Contains(key, "guard.escaped"):
			return "", &KeyError{Reason: "an argument of Keyf does not fit the format"}
		}
		return key, nil
	}
}

// misfits looks for the mark by which fmt says what is wrong with a format. No argument has
// it, as they are escaped; a format may have it as text, behind a percent sign of its own.
func misfits(key, format string, parts []any) bool {
	return strings.Contains(key, "%!") &&
		(!strings.Contains(format, "%%!") || strings.Contains(fmt.Sprintf(strings.ReplaceAll(format, "%%", ""), parts...), "%!"))
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

// keyFaults is what was found to be wrong with the arguments of Keyf.
type keyFaults struct{ empty, misfit bool }

// keyPart wraps an argument of Keyf so that its text is escaped. Bools and floats have
// nothing to escape. Whole numbers have, where a verb prints them as characters; as widths
// ('*') they must stay numbers.
func keyPart(arg any, format string, found *keyFaults) any {
	switch arg.(type) {
	case fmt.Stringer, fmt.Formatter, fmt.GoStringer, error: // they print as they like
		return escapedArg{arg, found}
	}
	switch v := reflect.ValueOf(arg); {
	case !strings.ContainsAny(format, "cqU") && v.Kind() >= reflect.Int && v.Kind() <= reflect.Uintptr:
		return arg
	case v.CanInt():
		return escapedInt(v.Int())
	case v.CanUint():
		return escapedUint(v.Uint())
	case v.Kind() == reflect.Bool, v.CanFloat(), v.CanComplex():
		return arg
	}
	return escapedArg{arg, found}
}

type escapedArg struct {
	arg   any
	found *keyFaults
}

// Format implements fmt.Formatter.
func (e escapedArg) Format(state fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(state, verb), e.arg)
	switch {
	case text == "" || text == "<nil>":
		e.found.empty = true
	case strings.Contains(text, "%!"+string(verb)+"("):
		e.found.misfit = true
	}
	_, _ = state.Write([]byte(keyEscaper.Replace(text)))
}

// Numbers that fmt may also take as widths.
type (
	escapedInt  int64
	escapedUint uint64
)

// Format implements fmt.Formatter.
func (e escapedInt) Format(state fmt.State, verb rune) { formatNumber(state, verb, int64(e)) }

// Format implements fmt.Formatter.
func (e escapedUint) Format(state fmt.State, verb rune) { formatNumber(state, verb, uint64(e)) }

func formatNumber[N int64 | uint64](state fmt.State, verb rune, n N) {
	text := fmt.Sprintf(fmt.FormatString(state, verb), n)
	if !strings.Contains(text, "%!") { // else Keyf looks for it
		text = keyEscaper.Replace(text)
	}
	_, _ = state.Write([]byte(text))
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
