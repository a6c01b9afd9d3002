package keyformat

import (
	"fmt"
	"reflect"
	"strings"
)

// Sprintf is fmt.Sprintf, except that what comes from an argument is escaped. fault says why
// that gives no key: it is empty if it does.
func Sprintf(format string, args []any) (key, fault string) {
	parts := make([]any, len(args))
	for i, arg := range args {
		parts[i] = part(arg, &fault)
	}
	key = fmt.Sprintf(format, parts...)
	if misfits(key, format, parts) || strings.Contains(key, "keyformat.escaped") {
		fault = misfit
	}
	if fault != "" {
		return "", fault
	}
	return key, ""
}

// Why an argument cannot be used, after "an argument of Keyf(...)".
const (
	empty     = "is empty"
	misfit    = "does not fit the format"
	address   = "prints an address in memory: give the value that it points to"
	monotonic = "prints a reading of the monotonic clock: give t.Round(0) instead of t"
)

// Join joins parts with ':' after escaping each.
func Join(parts []string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escaper.Replace(part)
	}
	return strings.Join(escaped, ":")
}

// misfits looks for the mark by which fmt reports a fault of a format. No argument has
// it, as they are escaped; a format may have it as text, after a percent sign.
func misfits(key, format string, parts []any) bool {
	return strings.Contains(key, "%!") && strings.Contains(fmt.Sprintf(strings.ReplaceAll(format, "%%", ""), parts...), "%!")
}

var escaper = strings.NewReplacer("%", "%25", ":", "%3A")

// part wraps an argument so that its text is escaped. A whole number stays a number: it may be a width ('*').
func part(arg any, fault *string) any {
	switch arg.(type) {
	case fmt.Stringer, fmt.Formatter, fmt.GoStringer, error: // they print as they like
		return escapedArg{arg, fault}
	}
	switch v := reflect.ValueOf(arg); {
	case v.CanInt():
		return escapedInt(v.Int())
	case v.CanUint():
		return escapedUint(v.Uint())
	}
	return escapedArg{arg, fault}
}

type escapedArg struct {
	arg   any
	fault *string // of any argument
}

// Format implements fmt.Formatter.
func (e escapedArg) Format(state fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(state, verb), e.arg)
	if fault := e.faultOf(text, verb, state.Flag('#')); fault != "" {
		*e.fault = fault
	}
	_, _ = state.Write([]byte(escaper.Replace(text)))
}

func (e escapedArg) faultOf(text string, verb rune, sharp bool) string {
	switch {
	case text == "" || text == "<nil>":
		return empty
	case strings.Contains(text, "%!"+string(verb)+"("):
		return misfit
	}
	return printing{verb, sharp}.fault(e.arg)
}

// Numbers that fmt may also take as widths. A verb may print them as characters ('%c').
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
	if !strings.Contains(text, "%!") { // else misfits finds it
		text = escaper.Replace(text)
	}
	_, _ = state.Write([]byte(text))
}
