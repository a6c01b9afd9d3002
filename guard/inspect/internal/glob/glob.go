package glob

import (
	"fmt"
	"strings"
)

// MaxLength is the longest pattern, in bytes: a comparison takes up to as many steps as the
// pattern and the key have characters, multiplied.
const MaxLength = 512

// Special are the characters that a pattern does not take as they are.
const Special = `*?[\`

// Glob is a pattern. An empty one is every key.
type Glob []rune

// New gives an error, without the name of the argument, if a pattern is too long.
func New(match string) (Glob, error) {
	if len(match) > MaxLength {
		return nil, fmt.Errorf("has %d bytes, the longest is %d", len(match), MaxLength)
	}
	if match == "" {
		match = "*"
	}
	return Glob(match), nil
}

// Scan is what SCAN is to look for: nothing that matches is left out, other things may
// come along. In the names that locks have in Redis, '}' and '\' of a key are two
// characters: only patterns that cannot meet those can go to Redis as they are.
func (g Glob) Scan(prefix string) string {
	match := string(g)
	if strings.ContainsAny(match, `?[]\}`) {
		match = "*"
	}
	return escaper.Replace(prefix) + ":{" + match + "}"
}

// escaper writes text so that SCAN takes it as it is.
var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Matches says whether all of a key is as the pattern says.
func (g Glob) Matches(key string) bool { return match(g, []rune(key)) }

// match looks for the shortest text for each '*'; what comes after the latest one alone
// is tried again.
func match(pattern, text []rune) bool {
	star, mark := -1, 0
	p, t := 0, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, t
			p++
			continue
		}
		if ok, next := one(pattern, p, text[t]); ok {
			p, t = next, t+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, t = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one says whether the pattern at p matches a character, and where the pattern continues.
func one(pattern []rune, p int, r rune) (ok bool, next int) {
	if p >= len(pattern) {
		return false, p
	}
	switch c := pattern[p]; {
	case c == '?':
		return true, p + 1
	case c == '\\' && p+1 < len(pattern):
		return pattern[p+1] == r, p + 2
	case c == '[':
		return class(pattern, p+1, r)
	default:
		return c == r, p + 1
	}
}

// class is what follows a '['. Without an end, it ends with the pattern.
func class(pattern []rune, p int, r rune) (ok bool, next int) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		if pattern[p] == '\\' && p+1 < len(pattern) {
			p++
			ok = ok || pattern[p] == r
			continue
		}
		low, high := pattern[p], pattern[p]
		if p+2 < len(pattern) && pattern[p+1] == '-' {
			high = pattern[p+2]
			p += 2
		}
		ok = ok || min(low, high) <= r && r <= max(low, high)
	}
	return ok != not, min(p+1, len(pattern))
}
