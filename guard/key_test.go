package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestKey_KeyfEscapesWhatCouldSpellAnotherKey(t *testing.T) {
	key, err := guard.Keyf("t:%s:o:%s:%d", "a:b", "c%d", 42)(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "t:a%3Ab:o:c%25d:42", key)
	assert.Equal(t, "a%3Ab:c%25:", guard.JoinKey("a:b", "c%", ""))
}

func TestKey_KeyfRefusesArgumentsThatAreNoKeyPart(t *testing.T) {
	for name, key := range map[string]guard.KeyFunc{
		"is empty":                guard.Keyf("order:%s", ""),
		"does not fit the format": guard.Keyf("order:%s"),
	} {
		_, err := key(t.Context())
		var keyErr *guard.KeyError
		require.ErrorAs(t, err, &keyErr)
		assert.ErrorContains(t, err, name)
	}
}

func TestKey_InvalidKeysRunNothing(t *testing.T) {
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

func TestKey_LongestAndStrangestKeysLock(t *testing.T) {
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
