package keyformat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/keyformat"
)

type orderID int

func (id orderID) String() string { return strings.Repeat("x", int(id)) }

type codeError int

func (c codeError) Error() string { return fmt.Sprintf("code:%d%%", int(c)) }

type keyParts struct {
	A string
	N int
}

type panicking struct{}

func (panicking) String() string { panic("no text") }

func TestKeyf_WhatCouldSpellAnotherKeyIsEscaped(t *testing.T) {
	for _, c := range []struct {
		format string
		args   []any
		want   string
	}{
		{"order:%s", []any{"42"}, "order:42"},
		{"order:%d", []any{42}, "order:42"},
		{"order:%05d:%t", []any{42, true}, "order:00042:true"},
		{"order:%*d", []any{4, 42}, "order:  42"},
		{"t:%s:o:%s", []any{"a:b", "c%d"}, "t:a%3Ab:o:c%25d"},
		{"o:%v", []any{3 * time.Second}, "o:3s"},
		{"o:%s", []any{orderID(2)}, "o:xx"},
		{"o:%d", []any{orderID(2)}, "o:2"},
		{"o:%v", []any{[]string{"a:b"}}, "o:[a%3Ab]"},
		{"100%%:%s", []any{"x"}, "100%:x"},
		{"100%%!:%s", []any{"x"}, "100%!:x"},
		{"o:%s", []any{"50%!"}, "o:50%25!"},
		{"o:%s", []any{"%!(NOVERB)"}, "o:%25!(NOVERB)"},
		{"o:%v", []any{codeError(7)}, "o:code%3A7%25"},
		{"o:%d", []any{codeError(7)}, "o:7"},
		{"o:%c", []any{':'}, "o:%3A"},
		{"o:%c", []any{'%'}, "o:%25"},
		{"o:%c%c", []any{'a', uint8('b')}, "o:ab"},
		{"o:%q", []any{':'}, "o:'%3A'"},
		{"o:%#U", []any{':'}, "o:U+003A '%3A'"},
		{"o:%c:%*d", []any{'c', 4, int8(-42)}, "o:c: -42"},
		{"o:%c:%*d", []any{'c', uint8(4), uint(42)}, "o:c:  42"},
		{"o:%t:%.1f", []any{true, 1.5}, "o:true:1.5"},
		{"o:%+v", []any{keyParts{"a:b", 1}}, "o:{A%3Aa%3Ab N%3A1}"},
	} {
		got, fault := keyformat.Sprintf(c.format, c.args)
		assert.Empty(t, fault, c.format)
		assert.Equal(t, c.want, got)
	}
	assert.Equal(t, "a%3Ab:c%25:", keyformat.Join([]string{"a:b", "c%", ""}))
}

func TestKeyf_ArgumentsThatAreNoKeyPart(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		args   []any
	}{
		"empty string":   {"order:%s", []any{""}},
		"empty Stringer": {"order:%s", []any{orderID(0)}},
		"nil":            {"order:%v", []any{nil}},
		"nil pointer":    {"order:%v", []any{(*time.Time)(nil)}},
		"missing":        {"order:%s", []any{}},
		"one too many":   {"order:%s", []any{"a", "b"}},
		"wrong verb":     {"order:%d", []any{"a"}},
		"wrong inside":   {"order:%d", []any{[]string{"a"}}},
		"no number":      {"order:%s", []any{42}},
		"no character":   {"order:%c:%s", []any{'c', 42}},
		"no verb":        {"%!", []any{}},
		"none for it":    {"%!", []any{"a"}},
		"percent too":    {"100%%!:%s", []any{}},
		"a type":         {"order:%T", []any{"a"}},
		"panics":         {"order:%v", []any{panicking{}}},
	} {
		key, fault := keyformat.Sprintf(c.format, c.args)
		assert.Empty(t, key, name)
		assert.NotEmpty(t, fault, name)
	}
}

func TestKeyf_StripesAreSpreadEvenly(t *testing.T) {
	const n, ids = 16, 16_000
	count := map[string]int{}
	for i := range ids {
		count[keyformat.Stripe(n, fmt.Sprintf("order:%d", i))]++
	}
	require.Len(t, count, n)
	// Programs of different versions share these.
	assert.Equal(t, "stripe:16:13", keyformat.Stripe(n, "order:0"))
	for key, got := range count {
		assert.InDelta(t, ids/n, got, ids/n/5, key)
	}
}

func FuzzSprintfTellsArgumentsApart(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("%3A", ":", ":", "%3A")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, fault1 := keyformat.Sprintf("k:%s:%s", []any{a, b})
		two, fault2 := keyformat.Sprintf("k:%s:%s", []any{c, d})
		if fault1 != "" || fault2 != "" {
			return
		}
		assert.Equal(t, a == c && b == d, one == two)
		assert.Equal(t, "k:"+keyformat.Join([]string{a, b}), one)
	})
}
