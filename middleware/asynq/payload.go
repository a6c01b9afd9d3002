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
	errNotUTF8    = keytemplate.Invalid("not UTF-8")
	errNoFraction = keytemplate.Invalid("a number, but not an integer")
)

// payload is a JSON object of which only what is asked for gets decoded: numbers stay
// as they are written.
type payload struct {
	fields map[string]json.RawMessage
	err    error
}

func newPayload(data []byte) *payload {
	p := &payload{}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		p.err = errNoObject
	} else if json.Unmarshal(data, &p.fields) != nil {
		// The decoder's error may quote the payload.
		p.err = errNoObject
	}
	return p
}

// field gives the text of the value at path, "" if there is none.
func (p *payload) field(path []string) (string, error) {
	if p.err != nil {
		return "", p.err
	}
	value, ok := p.fields[path[0]]
	switch {
	case !ok:
		return "", nil
	case len(path) > 1:
		return newPayload(value).field(path[1:])
	}
	return text(value)
}

func text(value json.RawMessage) (string, error) {
	switch {
	case value[0] == '"':
		// The decoder would replace what is not UTF-8, and so make values equal.
		if !utf8.Valid(value) {
			return "", errNotUTF8
		}
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return "", errNoText
		}
		return s, nil
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
