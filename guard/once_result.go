package guard

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
)

// encodeResult returns the bytes that the record keeps of a result. They are its own: what Encoding returns may be
// memory of the result, which its caller may change. Without Encoding, it is an error if later callers would get
// another value.
func encodeResult[T any](o *once, v T) ([]byte, error) {
	data, err := o.marshal(v)
	if err != nil || o.encoding {
		return bytes.Clone(data), err
	}
	later, err := decodeResult[T](o, data)
	if err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	if path, differs := difference(reflect.ValueOf(&v).Elem(), reflect.ValueOf(&later).Elem(), 0); differs {
		return nil, fmt.Errorf("JSON does not give it back: %T%s differs", v, path)
	}
	return data, nil
}

// decodeResult returns a result that was kept. The bytes are copied: Encoding may return them, and each caller gets its own.
func decodeResult[T any](o *once, data []byte) (v T, err error) {
	if err = o.unmarshal(bytes.Clone(data), &v); err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// maxDepth bounds how deep difference looks: values that point to themselves differ.
const maxDepth = 1000

// difference returns whether b, which was decoded from the JSON of a, is another value than a, and where. Equal is as
// the method Equal of a type says, if it has one. Within an any, a number may come back as a float64 of the same value,
// and lists and maps as []any and map[string]any, as encoding/json documents. An empty list or map may come back as nil.
func difference(a, b reflect.Value, depth int) (path string, differs bool) {
	a, b = pointee(a), pointee(b)
	switch {
	case depth > maxDepth:
		return "", true
	case !a.IsValid() || !b.IsValid():
		return "", !isNothing(a) || !isNothing(b)
	case a.Type() == b.Type() && hasEqual(a):
		return "", !a.MethodByName("Equal").Call([]reflect.Value{b})[0].Bool()
	}
	switch a.Kind() {
	case reflect.Struct:
		return structDifference(a, b, depth)
	case reflect.Slice, reflect.Array:
		return listDifference(a, b, depth)
	case reflect.Map:
		return mapDifference(a, b, depth)
	case reflect.String:
		return "", b.Kind() != reflect.String || a.String() != b.String()
	case reflect.Bool:
		return "", b.Kind() != reflect.Bool || a.Bool() != b.Bool()
	case reflect.Float32:
		return "", !b.CanFloat() || float32(a.Float()) != float32(b.Float())
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return "", !a.IsZero() || !b.IsZero()
	}
	x, y := number(a), number(b)
	return "", x == nil || y == nil || x.Cmp(y) != 0
}

// pointee follows pointers and interfaces. It is the zero Value where they end in nil.
func pointee(v reflect.Value) reflect.Value {
	for range maxDepth {
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			break
		}
		v = v.Elem()
	}
	return v
}

// isNothing returns whether v, as pointee returns it, is nil, or an empty list or map, for which JSON may have a null.
func isNothing(v reflect.Value) bool {
	return !v.IsValid() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// hasEqual returns whether v has a method Equal for values of its own type. Those of unexported fields cannot be called.
func hasEqual(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	m := v.MethodByName("Equal")
	return m.IsValid() && m.Type().NumIn() == 1 && m.Type().In(0) == v.Type() && m.Type().NumOut() == 1 && m.Type().Out(0).Kind() == reflect.Bool
}

// number returns the exact value of a number, or nil.
func number(v reflect.Value) *big.Float {
	switch {
	case v.CanInt():
		return new(big.Float).SetInt64(v.Int())
	case v.CanUint():
		return new(big.Float).SetUint64(v.Uint())
	case v.CanFloat() && v.Float() == v.Float(): //nolint:gocritic // it is no NaN
		return big.NewFloat(v.Float())
	}
	return nil
}

func structDifference(a, b reflect.Value, depth int) (path string, differs bool) {
	if a.Type() != b.Type() {
		return "", true
	}
	for i := range a.NumField() {
		if path, differs = difference(a.Field(i), b.Field(i), depth+1); differs {
			return "." + a.Type().Field(i).Name + path, true
		}
	}
	return "", false
}

func listDifference(a, b reflect.Value, depth int) (path string, differs bool) {
	if b.Kind() != reflect.Slice && b.Kind() != reflect.Array || a.Len() != b.Len() {
		return "", true
	}
	for i := range a.Len() {
		if path, differs = difference(a.Index(i), b.Index(i), depth+1); differs {
			return "[" + strconv.Itoa(i) + "]" + path, true
		}
	}
	return "", false
}

func mapDifference(a, b reflect.Value, depth int) (path string, differs bool) {
	if b.Kind() != reflect.Map || a.Len() != b.Len() || a.Type().Key().Kind() != b.Type().Key().Kind() {
		return "", true
	}
	for key, value := range a.Seq2() {
		found := b.MapIndex(key.Convert(b.Type().Key()))
		if path, differs = difference(value, found, depth+1); differs || !found.IsValid() {
			return "[…]" + path, true // a key may be a secret
		}
	}
	return "", false
}
