package rediskey_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/rediskey"
)

func TestKey_LockHasOneTagAndComesBack(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range []string{
		"order:42", "{", "}", "}{", "{}", `\`, `\\`, `\)`, `\}`, `}\`, "a}b", `a\)b`, ")", " ", "订单", "*?[a]", "guard:{x}",
	} {
		lock := rediskey.Lock("guard", key)
		assert.Empty(t, seen[lock], "%q is that of %q, too", lock, key)
		seen[lock] = key
		assert.Equal(t, 1, strings.Count(lock, "}"), "%q: the first ends the tag", lock)
		assert.True(t, strings.HasPrefix(lock, "guard:{") && strings.HasSuffix(lock, "}"), lock)
		back, ok := rediskey.Of("guard", lock)
		require.True(t, ok, lock)
		assert.Equal(t, key, back)
	}
}

func TestKey_WhatIsNoLock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "guard", "guard:{}", "guard:{k}:queue", "guard:{k", "other:{k}", "guard:instance:0123", `guard:{a\b}`, `guard:{a\}`,
	} {
		_, ok := rediskey.Of("guard", name)
		assert.False(t, ok, name)
	}
}
