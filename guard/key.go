package guard

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard/internal/keyformat"
)

// MaxKeyLength is the longest key that can be locked, in bytes.
const MaxKeyLength = 512

// KeyFunc names what a call locks. Its error, or its panic, becomes a KeyError and
// nothing runs. It is called once per call, before anything is sent to Redis, and may
// be called from many goroutines at a time.
type KeyFunc func(ctx context.Context) (string, error)

// Key is the KeyFunc of a literal key: any non-empty UTF-8 string of at most
// MaxKeyLength bytes. It knows no placeholders: Key("order:{id}") locks that very text, one
// lock for all orders. The Key of an adapter is another function, which fills them in. For a
// key with a value in it, use Keyf.
func Key(key string) KeyFunc {
	return func(context.Context) (string, error) { return key, nil }
}

// Keyf is the KeyFunc of a formatted key, as fmt.Sprintf makes it, except that what
// comes from an argument is escaped as in JoinKey, whatever its type and verb:
// ("a:b", "c") and ("a", "b:c") never spell the same key. An argument that prints as
// nothing, or that does not fit its verb, and the verb %T are a KeyError.
//
// A format with a verb, such as "order:%d", is the lock's name in errors and telemetry where
// Name gives none. So the format is a constant: give values as args. From the 257th format
// of a process on, the name is "default".
func Keyf(format string, args ...any) KeyFunc {
	return withFormat(format, func(context.Context) (string, error) {
		key, fault := keyformat.Sprintf(format, args)
		if fault != "" {
			return "", &KeyError{Reason: fmt.Sprintf("an argument of Keyf(%q) %s", format, fault)}
		}
		return key, nil
	})
}

// JoinKey joins parts with ':' after escaping ':' as %3A and '%' as %25 in each, so
// that different parts never make the same key. An empty part is joined like any other:
// where it stands for a value that is missing, return an error instead.
func JoinKey(parts ...string) string { return keyformat.Join(parts) }

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
