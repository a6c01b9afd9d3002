package locking

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/guard"
)

// Parse reads a template. All text outside braces is literal and may be any UTF-8 but
// braces. Its error names the column, from 1, in bytes.
func Parse[S any](text string, grammar Grammar[S]) (*Template[S], error) {
	p := parser[S]{text: text, grammar: grammar}
	if err := p.run(); err != nil {
		return nil, err
	}
	return &Template[S]{text: text, parts: p.parts, tail: p.literal, size: p.size}, nil
}

type parser[S any] struct {
	text    string
	grammar Grammar[S]

	parts   []part[S]
	literal string // since the last placeholder
	size    int    // of the shortest key
	joined  string // the placeholder that no ':' has closed off yet
}

func (p *parser[S]) run() error {
	if p.text == "" {
		return p.fail(0, "is empty")
	}
	for at := 0; at < len(p.text); {
		var err error
		switch p.text[at] {
		case '{':
			at, err = p.placeholder(at)
		case '}':
			err = p.fail(at, "'}' without '{'")
		default:
			at, err = p.plain(at)
		}
		if err != nil {
			return err
		}
		if p.size > guard.MaxKeyLength {
			return p.fail(at-1, fmt.Sprintf("every key is longer than %d bytes", guard.MaxKeyLength))
		}
	}
	return nil
}

// plain reads literal text and gives the place after it.
func (p *parser[S]) plain(at int) (int, error) {
	end := len(p.text)
	if n := strings.IndexAny(p.text[at:], "{}"); n >= 0 {
		end = at + n
	}
	p.literal = p.text[at:end]
	for i := 0; i < len(p.literal); {
		r, width := utf8.DecodeRuneInString(p.literal[i:])
		if r == utf8.RuneError && width == 1 {
			return 0, p.fail(at+i, "not UTF-8")
		}
		i += width
	}
	if strings.Contains(p.literal, ":") {
		p.joined = ""
	}
	p.size += len(p.literal)
	return end, nil
}

// placeholder reads "{…}" and gives the place after it.
func (p *parser[S]) placeholder(at int) (int, error) {
	length := strings.IndexAny(p.text[at+1:], "{}")
	if length < 0 {
		return 0, p.fail(at, "'{' without '}'")
	}
	end := at + 1 + length
	if p.text[end] == '{' {
		return 0, p.fail(end, "'{' inside a placeholder")
	}
	text := p.text[at : end+1]
	if p.joined != "" {
		// Without a ':' in between, ("ab", "c") and ("a", "bc") would make one key.
		return 0, p.fail(at, fmt.Sprintf("%s needs a ':' between it and %s", text, p.joined))
	}
	extract, err := p.bind(text[1 : len(text)-1])
	if err != nil {
		return 0, p.fail(at+1, err.Error())
	}
	p.parts = append(p.parts, part[S]{literal: p.literal, placeholder: text, extract: extract})
	p.literal, p.joined = "", text
	p.size++
	return end + 1, nil
}

func (p *parser[S]) bind(inner string) (Extract[S], error) {
	if inner == "" {
		return nil, fmt.Errorf("placeholder without a name")
	}
	if !utf8.ValidString(inner) {
		return nil, fmt.Errorf("placeholder name is not UTF-8")
	}
	kind, name, hasKind := strings.Cut(inner, ":")
	if !hasKind {
		if extract, ok := p.grammar.Words[inner]; ok {
			return extract, nil
		}
		return p.grammar.Bare(inner)
	}
	bind, ok := p.grammar.Kinds[kind]
	switch {
	case !ok:
		return nil, fmt.Errorf("no placeholder is of the kind %q", kind)
	case name == "":
		return nil, fmt.Errorf("placeholder without a name behind %q", kind+":")
	}
	return bind(name)
}

func (p *parser[S]) fail(at int, reason string) error {
	return fmt.Errorf("key template %q: column %d: %s", p.text, at+1, reason)
}
