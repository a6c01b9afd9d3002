package redisstore

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// nastyKeys are those on which escapes and hash tags go wrong.
var nastyKeys = []string{
	"order:42", "", "{", "}", "{}", "}{", "{}x", "}x", "x}", "{a", "a}b", "a{b}c", "{{}}", "}}", "{x}:queue",
	`\`, `\\`, `\)`, `\}`, `}\`, `\\)`, ")", "\x00", "\n", "\r\n", "\xff", "a\xffb", " ", ":", ":queue", "订单:42",
	strings.Repeat("k", 512), strings.Repeat("}", 512),
}

// clusterTag is the part of a key that a Redis Cluster hashes, by its specification:
// the text between the first '{' and the first '}' to the right of it, if there are both
// and anything between them; else the whole key.
func clusterTag(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	length := strings.IndexByte(key[open+1:], '}')
	if length <= 0 {
		return key
	}
	return key[open+1 : open+1+length]
}

// clusterSlot is CRC16 (XMODEM) of the tag, modulo the number of slots.
func clusterSlot(key string) int64 {
	var crc uint16
	for _, b := range []byte(clusterTag(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int64(crc % 16384)
}

func TestKeys_HashTagRuleOfTheseTestsIsThatOfRedis(t *testing.T) {
	server := redistest.Start(t, "--cluster-enabled", "yes")
	rdb := server.Client(t, func(o *redis.Options) { o.DB = 0 })
	s := &Store{prefix: "redlatch"}
	for _, key := range nastyKeys {
		keys := s.keys(key)
		for _, k := range append(keys, key) {
			slot, err := rdb.ClusterKeySlot(t.Context(), k).Result()
			require.NoError(t, err)
			require.Equal(t, slot, clusterSlot(k), "%q", k)
		}
		if key != "" { // which no Guard takes
			require.Equal(t, int64(slotOf(key)), clusterSlot(keys[0]), "%q", key)
		}
	}
}

// FuzzRedisKeys looks at the keys of two locks: those of one lock are in one slot of a
// cluster, chosen by a tag of their own, and no key belongs to two locks. Keys are any
// bytes here; that they are UTF-8 and not empty is checked elsewhere.
func FuzzRedisKeys(f *testing.F) {
	for i, key := range nastyKeys {
		f.Add("redlatch", key, nastyKeys[(i+1)%len(nastyKeys)])
	}
	f.Add("a:b", `\}`, `}`)
	f.Add(`a\`, `\)`, `}`)
	f.Add(":", "}:queue", "")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		if prefix == "" || strings.ContainsAny(prefix, "{}") || !utf8.ValidString(prefix) {
			return // as guard.Prefix says
		}
		s := &Store{prefix: prefix}
		owner := make(map[string]string, 8)
		for _, key := range []string{a, b} {
			if key == "" {
				continue
			}
			keys := s.keys(key)
			require.Len(t, keys, 5)
			require.Equal(t, LockKey(prefix, key), keys[0])
			for _, k := range keys {
				assert.NotEqual(t, k, clusterTag(k), "%q has no tag", k)
				assert.NotEmpty(t, clusterTag(k))
				assert.Equal(t, clusterTag(keys[0]), clusterTag(k))
				assert.Equal(t, clusterSlot(keys[0]), clusterSlot(k))
				assert.True(t, strings.HasPrefix(k, prefix+":"), "%q is outside of its prefix", k)
				if other, taken := owner[k]; taken {
					require.Equal(t, other, key, "%q belongs to two locks", k)
				}
				owner[k] = key
			}
		}
	})
}
