package guard

import (
	"context"
	"fmt"
	"reflect"
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
// ("a:b", "c") and ("a", "b:c") never spell the same key. A KeyError refuses an argument that
// prints as nothing, that does not fit its verb or the verb %T, that prints an address in memory (a pointer,
// also inside a struct, slice, array, map or interface; a channel; a function), or the monotonic clock of
// time.Now. Values with a method that prints them (fmt.Stringer, fmt.Formatter, error) are printed by it; the
// String of a protocol buffer differs from build to build, so give its fields.
//
// Where Name gives no name, the format names the lock in errors and telemetry, with a * for each
// verb: "order:%d" is "order:*". So the format is a constant: give values as args. A format without a
// verb names no lock, nor does any new format from the 257th of a process on.
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

// maxStripes is the largest number of locks among which Stripe spreads keys.
const maxStripes = 65536

// Stripe is the KeyFunc of one of n locks for what key names: many ids share a bounded
// number of locks and queues. The same id has the same lock in every process. Its key is
// stripe:<n>:<i>, where i is the first 8 bytes of the SHA-256 of that of key as a big-endian number,
// modulo n. n is 1 to 65,536 ; any other n is a KeyError of each call, as is
// what WithLock would refuse in key. The lock has the name of key, see Keyf.
//
// Idle locks cost Redis nothing, so a lock for each id is the simpler choice. Stripes have
// traps:
//
//   - Two ids may share a lock. Under the lock of one, the other is re-entered instead of
//     excluded, and Held knows the lock's key, not the ids.
//   - Two stripes that are nested by hand may be taken in two orders. Give both to WithLocks,
//     which sorts them, and takes them once if they are one.
//   - n is a part of the key: while processes with two different n run, they do not exclude
//     each other. To change n, take both stripes (WithLocks) in a release between.
func Stripe(n int, key KeyFunc) KeyFunc {
	return withFormat(formatOf(key), func(ctx context.Context) (string, error) {
		if n < 1 || n > maxStripes {
			return "", &KeyError{Reason: fmt.Sprintf("%d stripes, which is outside 1 to %d", n, maxStripes)}
		}
		id, err := resolveKey(ctx, key)
		if err != nil {
			return "", err
		}
		return keyformat.Stripe(n, id), nil
	})
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
	switch {
	case key == "":
		return "", &KeyError{Reason: "empty"}
	case len(key) > MaxKeyLength:
		return "", &KeyError{Key: key, Reason: fmt.Sprintf("%d bytes, the longest is %d", len(key), MaxKeyLength)}
	case !utf8.ValidString(key):
		return "", &KeyError{Key: key, Reason: "not UTF-8"}
	}
	return key, nil
}

// withFormat makes a KeyFunc of which formatOf knows the format.
//
//go:noinline
func withFormat(format string, key KeyFunc) KeyFunc {
	return func(ctx context.Context) (string, error) {
		if ctx == askFormat {
			return format, nil
		}
		return key(ctx)
	}
}

// withFormatCode is the code of what withFormat returns. It is not inlined: there is only one.
var withFormatCode = reflect.ValueOf(withFormat("", nil)).Pointer()

// askFormat is the context with which a KeyFunc of withFormat gives its format and no key.
var askFormat context.Context = formatContext{context.Background()}

type formatContext struct {
	context.Context //nolint:containedctx // it is one
}

// formatOf gives the format with which Keyf made a KeyFunc, also under Stripe. It calls no
// other KeyFunc: those are called once, for the key.
func formatOf(key KeyFunc) string {
	if reflect.ValueOf(key).Pointer() != withFormatCode {
		return ""
	}
	format, _ := key(askFormat)
	return format
}

// formats are those that became names, in this process. The name of a lock is that of the options, else the format of
// its key, else none.
var formats keyformat.Names
