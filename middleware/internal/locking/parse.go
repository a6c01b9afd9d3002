package locking

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
)

// Parse reads a template. All text outside braces is literal and may be any UTF-8 except braces. Its error names the
// column, from 1, in bytes.
func Parse[S any](text string, grammar Grammar[S]) (*Template[S], error) {
	t := &Template[S]{text: text}
	if at, err := t.parse(grammar); err != nil {
		return nil, fmt.Errorf("key template %q: column %d: %w", text, at+1, err)
	}
	return t, nil
}

// parse fills t. With an error, at is where it is.
func (t *Template[S]) parse(grammar Grammar[S]) (at int, err error) {
	if t.text == "" {
		return 0, errors.New("is empty")
	}
	for i, r := range t.text {
		if r == utf8.RuneError && !strings.HasPrefix(t.text[i:], string(utf8.RuneError)) {
			return i, errors.New("not UTF-8")
		}
	}
	joined := "" // the last placeholder, until a ':' follows
	for {
		t.tail, _, _ = strings.Cut(t.text[at:], "{")
		if stray := strings.IndexByte(t.tail, '}'); stray >= 0 {
			return at + stray, errors.New("'}' without '{'")
		}
		at, t.size = at+len(t.tail), t.size+len(t.tail)
		if strings.Contains(t.tail, ":") {
			joined = ""
		}
		if at == len(t.text) {
			break
		}
		end := at + 1 + strings.IndexAny(t.text[at+1:], "{}")
		switch {
		case end == at:
			return at, errors.New("'{' without '}'")
		case t.text[end] == '{':
			return end, errors.New("'{' inside a placeholder")
		case joined != "": // without a ':' in between, ("ab", "c") and ("a", "bc") would make one key
			return at, fmt.Errorf("%s needs a ':' between it and %s", t.text[at:end+1], joined)
		}
		joined = t.text[at : end+1]
		extract, err := grammar.bind(t.text[at+1 : end])
		if err != nil {
			return at + 1, err
		}
		t.parts = append(t.parts, part[S]{literal: t.tail, placeholder: joined, extract: extract})
		at, t.size = end+1, t.size+1
	}
	if t.size > guard.MaxKeyLength {
		return at - 1, fmt.Errorf("every key is longer than %d bytes", guard.MaxKeyLength)
	}
	return 0, nil
}

// bind returns the Extract of what stands between braces.
func (g Grammar[S]) bind(placeholder string) (Extract[S], error) {
	kind, name, hasKind := strings.Cut(placeholder, ":")
	extract, isWord := g.Words[placeholder]
	bind, isKind := g.Kinds[kind]
	switch {
	case placeholder == "":
		return nil, errors.New("placeholder without a name")
	case isWord:
		return extract, nil
	case !hasKind:
		return g.Bare(placeholder)
	case !isKind:
		return nil, fmt.Errorf("no placeholder is of the kind %q", kind)
	case name == "":
		return nil, fmt.Errorf("placeholder without a name behind %q", kind+":")
	}
	return bind(name)
}
