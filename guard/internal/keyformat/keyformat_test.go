package keyformat_test

import (
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

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

func TestKeyf_EscapesTextThatCouldSpellAnotherKey(t *testing.T) {
	for _, c := range []struct {
		format string
		args   []any
		want   string
	}{
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
		{"o:%v", []any{codeError(7)}, "o:code%3A7%25"},
		{"o:%d", []any{codeError(7)}, "o:7"},
		{"o:%c", []any{':'}, "o:%3A"},
		{"o:%c%c", []any{'a', uint8('b')}, "o:ab"},
		{"o:%q", []any{':'}, "o:'%3A'"},
		{"o:%#U", []any{':'}, "o:U+003A '%3A'"},
		{"o:%c:%*d", []any{'c', uint8(4), uint(42)}, "o:c:  42"},
		{"o:%+v", []any{keyParts{"a:b", 1}}, "o:{A%3Aa%3Ab N%3A1}"},
	} {
		got, fault := keyformat.Sprintf(c.format, c.args)
		assert.Empty(t, fault, c.format)
		assert.Equal(t, c.want, got)
	}
	assert.Equal(t, "a%3Ab:c%25:", keyformat.Join([]string{"a:b", "c%", ""}))
	assert.Equal(t, "stripe:16:13", keyformat.Stripe(16, "order:0"), "programs of different versions share it")
}

func TestKeyf_ArgumentsThatAreNoKeyPart(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		args   []any
	}{
		"empty string":   {"order:%s", []any{""}},
		"first is empty": {"order:%s:%s", []any{"", "a"}},
		"empty Stringer": {"order:%s", []any{orderID(0)}},
		"nil":            {"order:%v", []any{nil}},
		"nil pointer":    {"order:%v", []any{(*time.Time)(nil)}},
		"missing":        {"order:%s", []any{}},
		"one too many":   {"order:%s", []any{"a", "b"}},
		"wrong verb":     {"order:%d", []any{"a"}},
		"no number":      {"order:%s", []any{42}},
		"no character":   {"order:%c:%s", []any{'c', 42}},
		"no verb":        {"%!", []any{}},
		"percent too":    {"100%%!:%s", []any{}},
		"a type":         {"order:%T", []any{"a"}},
		"panics":         {"order:%v", []any{panicking{}}},
		"an address":     {"order:%p", []any{new(int)}},
		"nil, a number":  {"order:%d", []any{(*int)(nil)}},
	} {
		key, fault := keyformat.Sprintf(c.format, c.args)
		assert.Empty(t, key, name)
		assert.NotEmpty(t, fault, name)
	}
}

// named prints itself, by its pointer's method.
type named struct{ id *int }

func (n *named) String() string { return fmt.Sprintf("named:%d", *n.id) }

type formatted struct{ n *int }

func (formatted) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("formatted")) }

type stamp struct{ time.Time }

// date is no stamp's text, though it embeds a time.
type date struct{ time.Time }

func (d date) String() string { return d.Format(time.DateOnly) }

func TestKeyf_AddressesAreRefused(t *testing.T) {
	n, list := 42, []int{42}
	type optional struct {
		ID   int
		Note *int
	}
	type hidden struct{ n *named }
	for name, c := range map[string]struct {
		format string
		arg    any
	}{
		"pointer":                 {"%v", &n},
		"%d":                      {"%d", &n},
		"%#v":                     {"%#v", &n},
		"channel":                 {"%v", make(chan int)},
		"function":                {"%v", func() {}},
		"unsafe pointer":          {"%v", unsafe.Pointer(&n)},
		"in a struct":             {"%v", optional{42, &n}},
		"behind a pointer":        {"%+v", &optional{42, &n}},
		"in a slice":              {"%v", []*int{nil, &n}},
		"in an array":             {"%v", [1]*int{&n}},
		"in an interface":         {"%v", []any{"a", &n}},
		"key of a map":            {"%v", map[*int]int{&n: 1}},
		"value of a map":          {"%v", map[string]*int{"a": &n, "b": nil, "c": nil, "d": nil}},
		"pointer to pointer":      {"%v", new(*int)},
		"pointer to a list in it": {"%v", []*[]int{&list}},
		"reflected":               {"%v", reflect.ValueOf(&n)},
		"Stringer as a number":    {"%d", &named{&n}},
		"Stringer in Go syntax":   {"%#v", &named{&n}},
		"unexported Stringer":     {"%v", hidden{&named{&n}}},
		"unexported local time":   {"%v", struct{ t time.Time }{time.Unix(0, 0).In(time.FixedZone("x", 1))}},
	} {
		key, fault := keyformat.Sprintf("order:"+c.format, []any{c.arg})
		assert.Empty(t, key, name)
		assert.Equal(t, "prints an address in memory: give the value that it points to", fault, name)
	}
}

func TestKeyf_ValuesWithoutAddressesArePrinted(t *testing.T) {
	n := 42
	type optional struct {
		ID   int
		Note *int
	}
	for want, arg := range map[string]any{
		"named%3A42":                          &named{&n},
		"[named%3A42]":                        []any{&named{&n}},
		"{{named%3A42}}":                      struct{ F any }{struct{ F fmt.Stringer }{&named{&n}}},
		"wrong":                               errors.New("wrong"),
		"7":                                   big.NewInt(7), // a Formatter
		"&{42 <nil>}":                         &optional{ID: 42},
		"formatted":                           formatted{&n},
		"&[1 2]":                              &[]int{1, 2},
		"&[1 2 3]":                            &[3]int{1, 2, 3},
		"&map[a%3A1]":                         &map[string]int{"a": 1},
		"[1 2]":                               []byte{1, 2},
		"[]":                                  []*int(nil),
		"[<nil>]":                             []any{nil},
		"{<nil>}":                             struct{ T *time.Time }{},
		"http%3A//a/%2541":                    &url.URL{Scheme: "http", Host: "a", Path: "/A", RawPath: "/%41"},
		"5":                                   reflect.ValueOf(5),
		"824633720832":                        uintptr(0xc000000000), // a number like any other
		"{1970-01-01 00%3A00%3A00 +0000 UTC}": struct{ T *time.Time }{ptr(time.Unix(0, 0).UTC())},
	} {
		key, fault := keyformat.Sprintf("%v", []any{arg})
		assert.Empty(t, fault, want)
		assert.Equal(t, want, key)
	}
}

func ptr[T any](v T) *T { return &v }

func TestKeyf_MonotonicClockIsRefused(t *testing.T) {
	now := time.Now()
	for name, arg := range map[string]any{
		"time":      now,
		"pointer":   &now,
		"embedded":  stamp{now},
		"in a list": []any{now.Add(-time.Hour)},
		"field":     struct{ T time.Time }{now},
		"map":       map[string]*stamp{"a": {now}},
	} {
		for _, format := range []string{"%v", "%s", "%#s"} {
			_, fault := keyformat.Sprintf(format, []any{arg})
			assert.Equal(t, "prints a reading of the monotonic clock: give t.Round(0) instead of t", fault, name)
		}
	}
	for _, arg := range []any{now.Round(0), now.UTC(), stamp{now.UTC()}, date{now}, []time.Time{now.Truncate(time.Hour)}, (*stamp)(nil)} {
		_, fault := keyformat.Sprintf("a:%v", []any{[]any{arg}})
		assert.Emptyf(t, fault, "%T", arg)
	}
	_, fault := keyformat.Sprintf("%#v", []any{now})
	assert.Empty(t, fault, "it prints the date")
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
