package inspect

import "strings"

// glob is a pattern as Redis has them, by characters instead of bytes.
type glob []rune

func newGlob(match string) glob {
	if match == "" {
		match = "*"
	}
	return glob(match)
}

// pattern is what SCAN is to look for: nothing that matches is left out, other things may
// come along. In the names that locks have in Redis, '}' and '\' of a key are two
// characters: only patterns that cannot meet those can go to Redis as they are.
func (g glob) pattern(prefix string) string {
	match := string(g)
	if strings.ContainsAny(match, `?[]\}`) {
		match = "*"
	}
	return escapeGlob(prefix) + ":{" + match + "}"
}

func (g glob) matches(key string) bool { return match(g, []rune(key)) }

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

// one says whether what stands at p matches a character, and where the pattern goes on.
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

// class is what stands behind a '['. Without an end, it ends with the pattern.
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
