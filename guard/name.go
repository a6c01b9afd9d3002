package guard

import (
	"cmp"
	"context"
	"reflect"

	"github.com/redlatch/redlatch/guard/internal/names"
)

// nameFor is the name of a lock that key was given for: that of the options, else the
// format of key, else the default.
func (s settings) nameFor(key KeyFunc) string {
	return cmp.Or(s.name, formats.Name(formatOf(key)), DefaultName)
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

// formats are those that became names, in this process.
var formats names.Formats
