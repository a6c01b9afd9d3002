package tasklock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/middleware/internal/locking"
)

var (
	errNoObject   = locking.Invalid("not in a JSON object")
	errNoText     = locking.Invalid("neither a string, an integer nor a bool")
	errTwice      = locking.Invalid("there twice: names that differ in case only are one to encoding/json")
	errNotUTF8    = locking.Invalid("not UTF-8")
	errNoFraction = locking.Invalid("a number, but not an integer")
)

// Field returns the text of the field at path in a JSON object. It returns "" if there is none, or none that makes a key.
func Field(object []byte, path string) string {
	fields, err := fieldsOf(path)
	if err != nil {
		return ""
	}
	value, _ := find(object, fields)
	return value
}

func fieldsOf(path string) ([]string, error) {
	fields := strings.Split(path, ".")
	if slices.Contains(fields, "") {
		return nil, fmt.Errorf("%q is not the path of a field", path)
	}
	return fields, nil
}

// find returns the text of the value at path, as encoding/json finds it for a struct, "" if there is none.
func find(payload []byte, path []string) (string, error) {
	if !json.Valid(payload) {
		return "", errNoObject
	}
	for _, name := range path {
		value, err := member(payload, name)
		if value == nil {
			return "", err
		}
		payload = value
	}
	return text(payload)
}

// member returns the value that encoding/json assigns to the field of a struct, nil if there is none. encoding/json ignores
// the case of names, and takes the last of several values. A program that reads the payload in another way may take another
// value, so several values are an error.
func member(object []byte, name string) (value json.RawMessage, err error) {
	// The payload is valid, so that only its end is an error.
	decoder := json.NewDecoder(bytes.NewReader(object))
	if begin, _ := decoder.Token(); begin != json.Delim('{') {
		return nil, errNoObject
	}
	for decoder.More() {
		key, _ := decoder.Token()
		var found json.RawMessage
		_ = decoder.Decode(&found)
		if is, _ := key.(string); !strings.EqualFold(is, name) {
			continue
		}
		if value != nil {
			return nil, errTwice
		}
		value = found
	}
	return value, nil
}

func text(value json.RawMessage) (string, error) {
	switch first := value[0]; {
	case first == '"':
		// The decoder would replace bytes that are not UTF-8, and so make different values equal.
		if !utf8.Valid(value) {
			return "", errNotUTF8
		}
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	case first == 't', first == 'f':
		return string(value), nil
	case first <= '9': // a digit, or '-'
		// "-0" would be a second spelling of 0.
		if bytes.ContainsAny(value, ".eE") || string(value) == "-0" {
			return "", errNoFraction
		}
		return string(value), nil
	}
	return "", errNoText
}
