package redisstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

func TestKey_LockHasOneTagAndComesBack(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range []string{
		"order:42", "{", "}", "}{", "{}", `\`, `\\`, `\)`, `\}`, `}\`, "a}b", `a\)b`, ")", " ", "订单", "*?[a]", "redlatch:{x}",
	} {
		lock := redisstore.LockKey("redlatch", key)
		assert.Empty(t, seen[lock], "%q is that of %q, too", lock, key)
		seen[lock] = key
		assert.Equal(t, 1, strings.Count(lock, "}"), "%q: the first ends the tag", lock)
		assert.True(t, strings.HasPrefix(lock, "redlatch:{") && strings.HasSuffix(lock, "}"), lock)
		back, ok := redisstore.KeyOf("redlatch", lock)
		require.True(t, ok, lock)
		assert.Equal(t, key, back)
	}
}

func TestKey_WhatIsNoLock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "redlatch", "redlatch:{}", "redlatch:{k}:queue", "redlatch:{k", "other:{k}", "redlatch:instance:0123", `redlatch:{a\b}`, `redlatch:{a\}`, "redlatch:{a}b}",
	} {
		_, ok := redisstore.KeyOf("redlatch", name)
		assert.False(t, ok, name)
	}
}

// Programs of different versions share these.
func TestKey_Names(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redlatch:{order:42}", redisstore.LockKey("redlatch", "order:42"))
	assert.Equal(t, "redlatch:{order:42}:once", redisstore.RecordKey("redlatch", "order:42"))
	assert.Equal(t, "redlatch:grant:0123", redisstore.Channel("redlatch", "0123"))
}

func TestKey_APrefixThatIsNone(t *testing.T) {
	t.Parallel()
	assert.Empty(t, redisstore.PrefixFault("shop:guard"))
	for _, prefix := range []string{"", "{", "shop}", "a\xff"} {
		assert.Contains(t, redisstore.PrefixFault(prefix), "must be UTF-8, not empty and without braces", prefix)
	}
}
