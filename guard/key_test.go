package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
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

func TestKeyfEscapesWhatCouldSpellAnotherKey(t *testing.T) {
	for _, c := range []struct {
		key  guard.KeyFunc
		want string
	}{
		{guard.Keyf("order:%s", "42"), "order:42"},
		{guard.Keyf("order:%d", 42), "order:42"},
		{guard.Keyf("order:%05d:%t", 42, true), "order:00042:true"},
		{guard.Keyf("order:%*d", 4, 42), "order:  42"},
		{guard.Keyf("t:%s:o:%s", "a:b", "c%d"), "t:a%3Ab:o:c%25d"},
		{guard.Keyf("o:%v", 3*time.Second), "o:3s"},
		{guard.Keyf("o:%s", orderID(2)), "o:xx"},
		{guard.Keyf("o:%d", orderID(2)), "o:2"},
		{guard.Keyf("o:%v", []string{"a:b"}), "o:[a%3Ab]"},
		{guard.Keyf("100%%:%s", "x"), "100%:x"},
		{guard.Keyf("100%%!:%s", "x"), "100%!:x"},
		{guard.Keyf("o:%s", "50%!"), "o:50%25!"},
		{guard.Keyf("o:%s", "%!(NOVERB)"), "o:%25!(NOVERB)"},
		{guard.Keyf("o:%v", codeError(7)), "o:code%3A7%25"},
		{guard.Keyf("o:%d", codeError(7)), "o:7"},
		{guard.Keyf("o:%c", ':'), "o:%3A"},
		{guard.Keyf("o:%c", '%'), "o:%25"},
		{guard.Keyf("o:%c%c", 'a', uint8('b')), "o:ab"},
		{guard.Keyf("o:%q", ':'), "o:'%3A'"},
		{guard.Keyf("o:%#U", ':'), "o:U+003A '%3A'"},
		{guard.Keyf("o:%c:%*d", 'c', 4, int8(-42)), "o:c: -42"},
		{guard.Keyf("o:%t:%.1f", true, 1.5), "o:true:1.5"},
		{guard.Keyf("o:%+v", keyParts{"a:b", 1}), "o:{A%3Aa%3Ab N%3A1}"},
	} {
		got, err := c.key(t.Context())
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	assert.Equal(t, "a%3Ab:c%25:", guard.JoinKey("a:b", "c%", ""))
}

func TestKeyfRefusesArgumentsThatAreNoKeyPart(t *testing.T) {
	for name, key := range map[string]guard.KeyFunc{
		"empty string":   guard.Keyf("order:%s", ""),
		"empty Stringer": guard.Keyf("order:%s", orderID(0)),
		"nil":            guard.Keyf("order:%v", nil),
		"nil pointer":    guard.Keyf("order:%v", (*time.Time)(nil)),
		"missing":        guard.Keyf("order:%s"),
		"one too many":   guard.Keyf("order:%s", "a", "b"),
		"wrong verb":     guard.Keyf("order:%d", "a"),
		"wrong inside":   guard.Keyf("order:%d", []string{"a"}),
		"no number":      guard.Keyf("order:%s", 42),
		"no character":   guard.Keyf("order:%c:%s", 'c', 42),
		"no verb":        guard.Keyf("%!"),
		"none for it":    guard.Keyf("%!", "a"),
		"percent too":    guard.Keyf("100%%!:%s"),
		"a type":         guard.Keyf("order:%T", "a"),
		"panics":         guard.Keyf("order:%v", panicking{}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := key(t.Context())
			var keyErr *guard.KeyError
			require.ErrorAs(t, err, &keyErr)
		})
	}
}

func TestInvalidKeysRunNothing(t *testing.T) {
	g := guardtest.NewGuard(t)
	boom := errors.New("boom")
	for name, key := range map[string]guard.KeyFunc{
		"nil function": nil,
		"empty":        guard.Key(""),
		"too long":     guard.Key(strings.Repeat("k", guard.MaxKeyLength+1)),
		"not UTF-8":    guard.Key("a\xffb"),
		"error":        func(context.Context) (string, error) { return "k", boom },
		"panic":        func(context.Context) (string, error) { panic(boom) },
		"panic text":   func(context.Context) (string, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			err := g.WithLock(t.Context(), key, func(context.Context) error {
				t.Error("ran")
				return nil
			})
			var keyErr *guard.KeyError
			require.ErrorAs(t, err, &keyErr)
			require.ErrorIs(t, err, guard.ErrKey)
			assert.Equal(t, "lock_key_invalid", keyErr.ErrorType())
			assert.NotContains(t, err.Error(), "kkk", "an error text never names the key")
			if name == "error" || name == "panic" {
				require.ErrorIs(t, err, boom)
			}
		})
	}
}

func TestLongestAndStrangestKeysLock(t *testing.T) {
	g := guardtest.New(t)
	for _, key := range []string{
		strings.Repeat("k", guard.MaxKeyLength), "{", "}", "{}", "}{", ":", "\x00", "a\nb", "订单:42", `\`,
	} {
		err := g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
			l, ok := guard.Held(ctx, key)
			require.True(t, ok)
			assert.Equal(t, key, l.Key())
			return nil
		})
		require.NoError(t, err)
	}
}

func FuzzKeyfTellsArgumentsApart(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("%3A", ":", ":", "%3A")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, err1 := guard.Keyf("k:%s:%s", a, b)(t.Context())
		two, err2 := guard.Keyf("k:%s:%s", c, d)(t.Context())
		if err1 != nil || err2 != nil {
			return
		}
		assert.Equal(t, a == c && b == d, one == two)
		assert.Equal(t, "k:"+guard.JoinKey(a, b), one)
	})
}
