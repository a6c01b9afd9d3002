package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// nastyKeys are those on which escapes and hash tags go wrong.
var nastyKeys = []string{
	"order:42", "{", "}", "{}", "}{", "{}x", "}x", "x}", "{a", "a}b", "a{b}c", "{{}}", "}}", "{x}:queue",
	`\`, `\\`, `\)`, `\}`, `}\`, `\\)`, ")", "\x00", "\n", "\r\n", "\xff", "a\xffb", " ", ":", ":queue", "订单:42", "redlatch:{x}",
	strings.Repeat("k", 512), strings.Repeat("}", 512),
}

// The keys of a lock are in one slot of a cluster, which is known without asking it.
func TestKeys_OfALockShareASlot(t *testing.T) {
	server := redistest.Start(t, "--cluster-enabled", "yes")
	rdb := server.Client(t, func(o *redis.Options) { o.DB = 0 })
	s := &Store{prefix: "redlatch"}
	for _, key := range nastyKeys {
		for _, k := range append(s.keys(key), s.recordKey(key)) {
			slot, err := rdb.ClusterKeySlot(t.Context(), k).Result()
			require.NoError(t, err)
			require.Equal(t, int64(slotOf(key)), slot, "%q", k)
		}
	}
}

// FuzzRedisKeys looks at the keys of two locks: no key belongs to two locks, and that of a lock leads back to its name.
// Keys are any bytes here; that they are UTF-8 and not empty is checked elsewhere.
func FuzzRedisKeys(f *testing.F) {
	for i, key := range nastyKeys {
		f.Add("redlatch", key, nastyKeys[(i+1)%len(nastyKeys)])
	}
	f.Add("a:b", `\}`, `}`)
	f.Add(`a\`, `\)`, `}`)
	f.Add(":", "}:queue", "")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		if PrefixFault(prefix) != "" {
			return
		}
		s := &Store{prefix: prefix}
		owner := make(map[string]string, 10)
		for _, key := range []string{a, b} {
			if key == "" {
				continue
			}
			keys, lock := s.keys(key), LockKey(prefix, key)
			require.Len(t, keys, 5)
			require.Equal(t, lock, keys[0])
			assert.Equal(t, strings.Index(lock, "}"), len(lock)-1, "the first ends the tag")
			back, ok := KeyOf(prefix, lock)
			require.True(t, ok, lock)
			require.Equal(t, key, back)
			for _, k := range keys {
				assert.True(t, strings.HasPrefix(k, lock), k)
				if other, taken := owner[k]; taken {
					require.Equal(t, other, key, "%q belongs to two locks", k)
				}
				owner[k] = key
			}
		}
	})
}

func TestKey_OtherNamesAreNoLocks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "redlatch", "redlatch:{}", "redlatch:{k}:queue", "redlatch:{k", "other:{k}", "redlatch:instance:0123", `redlatch:{a\b}`, `redlatch:{a\}`, "redlatch:{a}b}",
	} {
		_, ok := KeyOf("redlatch", name)
		assert.False(t, ok, name)
	}
}

// Programs of different versions share these.
func TestKey_Names(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redlatch:{order:42}", LockKey("redlatch", "order:42"))
	assert.Equal(t, "redlatch:{order:42}:once", RecordKey("redlatch", "order:42"))
	assert.Equal(t, "redlatch:grant:0123", Channel("redlatch", "0123"))
}

func TestKey_APrefixThatIsNone(t *testing.T) {
	t.Parallel()
	assert.Empty(t, PrefixFault("shop:guard"))
	for _, prefix := range []string{"", "{", "shop}", "a\xff"} {
		assert.Contains(t, PrefixFault(prefix), "must be UTF-8, not empty and without braces", prefix)
	}
}
