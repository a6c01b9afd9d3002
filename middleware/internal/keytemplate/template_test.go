package keytemplate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

func TestTemplate_KeyErrorsNameThePlaceholderAndNeverAValue(t *testing.T) {
	t.Parallel()
	parsed, err := Parse("tenant:{v:tenant}:order:{id}", testGrammar())
	require.NoError(t, err)
	for name, row := range map[string]struct {
		src  values
		want string
	}{
		"missing":   {values{"id": "secret"}, "guard: invalid lock key: placeholder {v:tenant}: missing or empty"},
		"empty":     {values{"tenant": "secret", "id": ""}, "guard: invalid lock key: placeholder {id}: missing or empty"},
		"not UTF-8": {values{"tenant": "secret", "id": "secret\xff"}, "guard: invalid lock key: placeholder {id}: not UTF-8"},
		"too long": {
			values{"tenant": "secret", "id": strings.Repeat("secret", 100)},
			"guard: invalid lock key: placeholder values: give a key of 620 bytes, the longest is 512",
		},
	} {
		key, err := parsed.Key(row.src)
		assert.Empty(t, key, name)
		assert.EqualError(t, err, row.want, name)
		var bad *guard.KeyError
		if assert.ErrorAs(t, err, &bad, name) {
			assert.Empty(t, bad.Key, name)
		}
		if value := ValueErrorIn(err); assert.NotNil(t, value, name) {
			assert.False(t, value.Unfit, name)
		}
	}
}

func TestTemplate_LongestKeyCountsEscapes(t *testing.T) {
	t.Parallel()
	parsed, err := Parse("{a}", testGrammar())
	require.NoError(t, err)
	key, err := parsed.Key(values{"a": strings.Repeat("x", 509) + ":"})
	require.NoError(t, err)
	assert.Len(t, key, guard.MaxKeyLength)
	_, err = parsed.Key(values{"a": strings.Repeat("x", 510) + ":"})
	assert.ErrorIs(t, err, guard.ErrKey)
}

func TestTemplate_UnfitIsKept(t *testing.T) {
	t.Parallel()
	grammar := testGrammar()
	grammar.Bare = func(string) (Extract[values], error) {
		return func(values) (string, error) { return "", Unfit("no such thing") }, nil
	}
	parsed, err := Parse("{a}", grammar)
	require.NoError(t, err)
	_, err = parsed.Key(nil)
	assert.EqualError(t, err, "guard: invalid lock key: placeholder {a}: no such thing")
	require.NotNil(t, ValueErrorIn(err))
	assert.True(t, ValueErrorIn(err).Unfit)
}

func TestTemplate_ValueErrorInOtherErrors(t *testing.T) {
	t.Parallel()
	assert.Nil(t, ValueErrorIn(nil))
	assert.Nil(t, ValueErrorIn(guard.ErrBusy))
}
