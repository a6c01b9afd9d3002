package generate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// LuaMutant is the text of a script with one change. Its ID is the line, how it is changed and what.
type LuaMutant struct{ ID, Text string }

// Lua makes the mutants of a script: a condition that is always true, or never; a call or an assignment less; a side of
// and, or of or, less; a whole number that is larger by one. A 0 or 1 that nothing is compared with makes none: most often
// it says where something begins, as in Go.
func Lua(text string) []LuaMutant {
	m := luaMaker{text: text, tokens: luaTokens(text)}
	for i, t := range m.tokens {
		switch {
		case slices.Contains([]string{"if", "elseif", "while"}, t.text):
			m.condition(i)
		case t.text == "and", t.text == "or":
			m.sides(i)
		case (t.text == "0" || t.text == "1") && !m.comparesWith(i):
		case wholeNumber.MatchString(t.text):
			n, _ := strconv.Atoi(t.text)
			m.make("number", t.at, t.till, strconv.Itoa(n+1))
		case t.isName() && m.startsStatement(i):
			m.statement(i)
		}
	}
	return m.mutants
}

// comparesWith returns whether something is compared with a token.
func (m *luaMaker) comparesWith(i int) bool {
	return i > 0 && slices.Contains([]string{"==", "~=", "<", ">", "<=", ">="}, m.tokens[i-1].text)
}

type luaMaker struct {
	text    string
	tokens  []luaToken
	mutants []LuaMutant
}

// luaToken is a word, number, string or sign, and where it stands.
type luaToken struct {
	text     string
	at, till int
}

var (
	luaToken1   = regexp.MustCompile(`^(?s)(?:--\[\[.*?\]\]|--[^\n]*|\s+|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[\[.*?\]\]|[A-Za-z_]\w*|\d[\w.]*|\.\.\.?|[=~<>]=|.)`)
	luaName     = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	wholeNumber = regexp.MustCompile(`^\d+$`)
)

var luaKeywords = strings.Fields("and break do else elseif end false for function if in local nil not or repeat return then true until while")

func luaTokens(text string) (tokens []luaToken) {
	for at := 0; at < len(text); {
		till := at + len(luaToken1.FindString(text[at:]))
		if t := text[at:till]; !strings.HasPrefix(t, "--") && strings.TrimSpace(t) != "" {
			tokens = append(tokens, luaToken{t, at, till})
		}
		at = till
	}
	return tokens
}

func (t luaToken) isName() bool {
	return luaName.MatchString(t.text) && !slices.Contains(luaKeywords, t.text)
}

// endsValue returns whether a value may end with the token, so that the next value is of another statement.
func (t luaToken) endsValue() bool {
	return t.isName() || strings.ContainsAny(t.text[:1], `0123456789"'`) || strings.HasPrefix(t.text, "[[") ||
		slices.Contains([]string{")", "]", "}", "true", "false", "nil", "end", "..."}, t.text)
}

func (m *luaMaker) make(kind string, at, till int, put string) {
	was := strings.Join(strings.Fields(m.text[at:till]), " ")
	id := fmt.Sprintf("%d %s: %s", 1+strings.Count(m.text[:at], "\n"), kind, was)
	m.mutants = append(m.mutants, LuaMutant{id, m.text[:at] + put + m.text[till:]})
}

// condition makes the mutants of what stands between if and then, or while and do.
func (m *luaMaker) condition(i int) {
	till := i + 1
	for !slices.Contains([]string{"then", "do"}, m.tokens[till].text) {
		till++
	}
	from, to := m.tokens[i+1].at, m.tokens[till-1].till
	if m.tokens[i].text != "while" { // it would not end
		m.make("always", from, to, "true")
	}
	m.make("never", from, to, "false")
}

// sides makes the mutants without the left and without the right of and, or of or.
func (m *luaMaker) sides(i int) {
	left, right := m.operand(i, -1), m.operand(i, 1)
	m.make("without", m.tokens[left].at, m.tokens[i+1].at, "")
	m.make("without", m.tokens[i-1].till, m.tokens[right].till, "")
}

// operand returns the first token of the left operand of an operator, or the last of the right one.
func (m *luaMaker) operand(i, step int) int {
	depth := 0
	opens, closes := "([{", ")]}"
	if step < 0 {
		opens, closes = closes, opens
	}
	for at := i; ; at += step {
		next := at + step
		if next < 0 || next == len(m.tokens) {
			return at
		}
		t := m.tokens[next].text
		switch {
		case strings.Contains(opens, t):
			depth++
		case strings.Contains(closes, t):
			if depth--; depth < 0 {
				return at
			}
		case depth > 0:
		case strings.Contains(",;=", t), t == "or", t == "and" && (m.tokens[i].text == "and"),
			slices.Contains(luaKeywords, t) && !slices.Contains([]string{"not", "and", "true", "false", "nil"}, t),
			at != i && m.endsBetween(min(at, next)):
			return at
		}
	}
}

// endsBetween reports whether a statement ends between a token and the next one.
func (m *luaMaker) endsBetween(i int) bool {
	next := m.tokens[i+1]
	return m.tokens[i].endsValue() && (next.isName() || wholeNumber.MatchString(next.text) || slices.Contains(luaKeywords, next.text) &&
		next.text != "and" && next.text != "or")
}

func (m *luaMaker) startsStatement(i int) bool {
	if i == 0 {
		return true
	}
	before := m.tokens[i-1].text
	return slices.Contains([]string{"then", "do", "else", "repeat", ";"}, before) || m.endsBetween(i-1) && !m.inHeader(i) ||
		before == ")" && m.closesParameters(i-1)
}

// inHeader returns whether local, function or for declares a name.
func (m *luaMaker) inHeader(i int) bool {
	return slices.Contains([]string{"local", "function", "for", "in", "return"}, m.tokens[i-1].text)
}

// closesParameters reports whether a parenthesis ends the parameters of a function.
func (m *luaMaker) closesParameters(i int) bool {
	for i > 0 && m.tokens[i].text != "(" {
		i--
	}
	return i > 0 && (m.tokens[i-1].text == "function" || i > 1 && m.tokens[i-2].text == "function")
}

// statement makes the mutant without a call or an assignment.
func (m *luaMaker) statement(i int) {
	depth, till := 0, i
	for ; till+1 < len(m.tokens); till++ {
		t := m.tokens[till].text
		switch {
		case strings.Contains("([{", t), t == "function":
			depth++
		case strings.Contains(")]}", t), t == "end":
			depth--
		}
		if depth == 0 && (m.endsBetween(till) || m.tokens[till+1].text == ";") {
			break
		}
	}
	m.make("drop", m.tokens[i].at, m.tokens[till].till, "")
}
