package keyformat

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// printing is a verb of fmt with its flag '#'. It finds in values what fmt prints differently for
// equal values: addresses, and readings of the monotonic clock.
type printing struct {
	verb  rune
	sharp bool
}

func (p printing) fault(arg any) string {
	v := reflect.ValueOf(arg)
	if inner, ok := arg.(reflect.Value); ok {
		v = inner // fmt prints the value that it has
	}
	if isPointer(v.Kind()) && !p.byMethod(v) {
		if v.IsNil() {
			return empty // %d would print 0
		}
		if v.Kind() == reflect.Pointer && isComposite(v.Elem().Kind()) {
			v = v.Elem() // fmt follows this one pointer
		}
	}
	return p.faultIn(v)
}

// faultIn walks v as fmt does, which follows no pointer inside a value.
func (p printing) faultIn(v reflect.Value) string {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if p.byMethod(v) {
		return p.faultOfMethod(v)
	}
	switch kind := v.Kind(); {
	case isPointer(kind) && !v.IsNil():
		return address
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if fault := p.faultIn(v.Field(i)); fault != "" {
				return fault
			}
		}
	case kind == reflect.Slice, kind == reflect.Array:
		for i := range v.Len() {
			if fault := p.faultIn(v.Index(i)); fault != "" {
				return fault
			}
		}
	case kind == reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			if fault := cmp.Or(p.faultIn(entry.Key()), p.faultIn(entry.Value())); fault != "" {
				return fault
			}
		}
	}
	return ""
}

// byMethod reports whether fmt prints v by a method of its type. A type that prints itself may
// print what it likes.
func (p printing) byMethod(v reflect.Value) bool {
	if !v.IsValid() || !v.CanInterface() {
		return false
	}
	arg := v.Interface()
	if _, ok := arg.(fmt.Formatter); ok {
		return true
	}
	if p.goSyntax() {
		_, ok := arg.(fmt.GoStringer)
		return ok
	}
	switch arg.(type) {
	case error, fmt.Stringer:
		return strings.ContainsRune("vsqxX", p.verb)
	}
	return false
}

// faultOfMethod looks for the String method of time.Time, also where a struct embeds one.
func (p printing) faultOfMethod(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	t, ok := v.Interface().(interface {
		String() string
		Round(d time.Duration) time.Time
	})
	if ok && !p.goSyntax() && strings.HasPrefix(t.String(), t.Round(0).String()+" m=") {
		return monotonic
	}
	return ""
}

func (p printing) goSyntax() bool { return p.verb == 'v' && p.sharp }

func isPointer(kind reflect.Kind) bool {
	switch kind {
	case reflect.Pointer, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return true
	}
	return false
}

func isComposite(kind reflect.Kind) bool {
	switch kind {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		return true
	}
	return false
}
