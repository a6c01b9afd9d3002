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
		"", "guard", "guard:{}", "guard:{k}:queue", "guard:{k", "other:{k}", "guard:instance:0123", `guard:{a\b}`, `guard:{a\}`, "guard:{a}b}",
	} {
		_, ok := rediskey.Of("guard", name)
		assert.False(t, ok, name)
	}
}

// Programs of different versions share these.
func TestKey_Names(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "guard:{order:42}", rediskey.Lock("guard", "order:42"))
	assert.Equal(t, "guard:{order:42}:once", rediskey.Record("guard", "order:42"))
	assert.Equal(t, "guard:grant:0123", rediskey.Channel("guard", "0123"))
}

func TestKey_APrefixThatIsNone(t *testing.T) {
	t.Parallel()
	assert.Empty(t, rediskey.PrefixFault("shop:guard"))
	for _, prefix := range []string{"", "{", "shop}", "a\xff"} {
		assert.Contains(t, rediskey.PrefixFault(prefix), "must be UTF-8, not empty and without braces", prefix)
	}
}
