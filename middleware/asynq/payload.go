package guardasynq

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/redlatch/redlatch/middleware/internal/keytemplate"
)

var (
	errNoObject   = keytemplate.Invalid("not in a JSON object")
	errNoText     = keytemplate.Invalid("neither a string, an integer nor a bool")
	errTwice      = keytemplate.Invalid("there twice: names that differ in case only are one to encoding/json")
	errNotUTF8    = keytemplate.Invalid("not UTF-8")
	errNoFraction = keytemplate.Invalid("a number, but not an integer")
)

// payload is that of a task. Of a JSON object, only what is asked for gets decoded.
type payload struct {
	data  []byte
	valid bool
}

func newPayload(data []byte) *payload { return &payload{data: data, valid: json.Valid(data)} }

// field gives the text of the value at path, "" if there is none.
func (p *payload) field(path []string) (string, error) {
	if !p.valid {
		return "", errNoObject
	}
	value := bytes.TrimLeft(p.data, jsonSpace)
	for _, name := range path {
		if value[0] != '{' {
			return "", errNoObject
		}
		var err error
		if value, err = member(value, name); value == nil {
			return "", err
		}
	}
	return text(value)
}

func text(value []byte) (string, error) {
	switch {
	case value[0] == '"':
		// The decoder would replace what is not UTF-8, and so make values equal.
		if !utf8.Valid(value) {
			return "", errNotUTF8
		}
		return unquote(value), nil
	case value[0] == 't', value[0] == 'f':
		return string(value), nil
	case value[0] == '-', '0' <= value[0] && value[0] <= '9':
		// "-0" would be a second spelling of 0.
		if bytes.ContainsAny(value, ".eE") || string(value) == "-0" {
			return "", errNoFraction
		}
		return string(value), nil
	}
	return "", errNoText
}
