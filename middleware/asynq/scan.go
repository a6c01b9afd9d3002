package guardasynq

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// What is here finds a value in JSON that is known to be valid. Decoding a payload to get
// at a single field would cost more than all else that the middleware does.

const jsonSpace = " \t\r\n"

// member is the value that encoding/json gives to the field of a struct, nil if there is
// none. It takes names that differ in case only for one, and of several values the last.
// Whoever reads the payload in another way may take another one, so several are an error.
func member(object []byte, name string) (value []byte, err error) {
	for rest := object[1:]; ; {
		rest = bytes.TrimLeft(rest, jsonSpace+",")
		if rest[0] == '}' {
			return value, nil
		}
		key := rest[:length(rest)]
		rest = bytes.TrimLeft(rest[len(key):], jsonSpace+":")
		found := rest[:length(rest)]
		rest = rest[len(found):]
		if !strings.EqualFold(unquote(key), name) {
			continue
		}
		if value != nil {
			return nil, errTwice
		}
		value = found
	}
}

// unquote gives what a string in JSON stands for, as encoding/json reads it.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	// There is no error: the string is valid.
	_ = json.Unmarshal(quoted, &s)
	return s
}

// length is that of the value at the beginning of data.
func length(data []byte) int {
	switch data[0] {
	case '"':
		return stringLength(data)
	case '{', '[':
		return nestedLength(data)
	}
	if end := bytes.IndexAny(data, ",]}"+jsonSpace); end >= 0 {
		return end
	}
	return len(data)
}

func stringLength(data []byte) int {
	at := 1
	for data[at] != '"' {
		if data[at] == '\\' {
			at++
		}
		at++
	}
	return at + 1
}

func nestedLength(data []byte) int {
	for at, depth := 0, 0; ; {
		switch data[at] {
		case '"':
			at += stringLength(data[at:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if at++; depth == 0 {
			return at
		}
	}
}
