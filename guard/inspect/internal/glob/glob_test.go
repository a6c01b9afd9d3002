package glob_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/inspect/internal/glob"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

func newGlob(t *testing.T, pattern string) glob.Glob {
	t.Helper()
	g, err := glob.New(pattern)
	require.NoError(t, err)
	return g
}

// text draws some characters.
func text(rnd *rand.Rand, of string, least, most int) string {
	b := make([]byte, least+rnd.IntN(most-least+1))
	for i := range b {
		b[i] = of[rnd.IntN(len(of))]
	}
	return string(b)
}

// Redis itself is asked, about patterns of all that has a meaning.
func TestMatches_AsRedisDoes(t *testing.T) {
	t.Parallel()
	rdb, rnd := redistest.Start(t).Client(t), rand.New(rand.NewPCG(1, 2))
	var keys []string
	for range 400 {
		keys = append(keys, text(rnd, `abcd-*?[]^\`, 1, 4))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	patterns := []string{`a**b`, `[`, `[^`, `[a`, `[a-`, `[a-c`, `[c-a]`, `[a-]`, `[\`, `[^\]a]`, `a\`}
	for range 4000 {
		patterns = append(patterns, text(rnd, `abcd--**??[[]]^\`, 1, 7), "["+text(rnd, `abcd-]^\`, 0, 5)+"]*")
	}
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(t.Context(), key, "", 0)
		}
		return nil
	})
	require.NoError(t, err)
	replies := make([]*redis.StringSliceCmd, len(patterns))
	_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i, pattern := range patterns {
			replies[i] = p.Keys(t.Context(), pattern)
		}
		return nil
	})
	require.NoError(t, err)
	for i, pattern := range patterns {
		g, want := newGlob(t, pattern), replies[i].Val()
		slices.Sort(want)
		got := []string{}
		for _, key := range keys {
			if g.Matches(key) {
				got = append(got, key)
			}
		}
		require.Equal(t, want, got, pattern)
	}
}

func TestMatches_Characters(t *testing.T) {
	t.Parallel()
	for pattern, keys := range map[string][2]string{
		"?":     {"ü", "üü"},
		"[ö-ü]": {"ù", "ý"},
		"[^ü]":  {"ö", "ü"},
		`\ü`:    {"ü", "ö"},
		"":      {"ü", ""},
	} {
		assert.True(t, newGlob(t, pattern).Matches(keys[0]), pattern)
		assert.Equal(t, pattern == "", newGlob(t, pattern).Matches(keys[1]), pattern)
	}
}

func TestScan_AsksForWhatRedisCanCompare(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"":         "redlatch:{*}",
		"order:*":  "redlatch:{order:*}",
		"a?":       "redlatch:{*}",
		"[ab]":     "redlatch:{*}",
		"a]":       "redlatch:{*}",
		`a\b`:      "redlatch:{*}",
		"a}":       "redlatch:{*}",
		"order:42": "redlatch:{order:42}",
	} {
		assert.Equal(t, want, newGlob(t, pattern).Scan("redlatch"), pattern)
	}
	assert.Equal(t, `\[a\]\*\?\\:{*}`, newGlob(t, "").Scan(`[a]*?\`))
}

func TestNew_BoundsItsPattern(t *testing.T) {
	t.Parallel()
	newGlob(t, strings.Repeat("a", glob.MaxLength))
	_, err := glob.New(strings.Repeat("a", glob.MaxLength+1))
	assert.EqualError(t, err, "has 513 bytes, the longest is 512")
}
