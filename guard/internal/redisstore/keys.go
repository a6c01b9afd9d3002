package redisstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// PrefixFault returns why a prefix cannot be used, or "".
func PrefixFault(prefix string) string {
	if prefix == "" || strings.ContainsAny(prefix, "{}") || !utf8.ValidString(prefix) {
		return fmt.Sprintf("%q must be UTF-8, not empty and without braces", prefix)
	}
	return ""
}

// LockKey returns the key of a lock; what belongs to it has this and a ':' in front of its name. {key}
// is a valid hash tag whatever bytes key holds: a '}' would end the tag early, and one at the
// start would make it empty, which scatters the keys of one lock over a cluster.
func LockKey(prefix, key string) string { return prefix + ":{" + escape(key) + "}" }

// RecordKey returns the key of what guard.Once knows of a lock.
func RecordKey(prefix, key string) string { return LockKey(prefix, key) + ":once" }

// escape returns a key as it is written between the braces.
func escape(key string) string { return escaper.Replace(key) }

// slotOf returns the slot of a cluster that has the keys of a lock: CRC16 (XMODEM) of the tag, modulo the number of slots.
func slotOf(key string) uint16 {
	var crc uint16
	for _, b := range []byte(escape(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc % 16384
}

// KeyOf is the reverse of LockKey. It returns false for any other key, such as a tag with a '}' in it.
func KeyOf(prefix, lock string) (key string, ok bool) {
	tag, begins := strings.CutPrefix(lock, prefix+":{")
	tag, ends := strings.CutSuffix(tag, "}")
	if !begins || !ends || tag == "" {
		return "", false
	}
	key = unescaper.Replace(tag)
	return key, escape(key) == tag
}

// Channel returns the name of the channel of an instance.
func Channel(prefix, instance string) string { return prefix + ":grant:" + instance }

var (
	escaper   = strings.NewReplacer(`\`, `\\`, `}`, `\)`)
	unescaper = strings.NewReplacer(`\\`, `\`, `\)`, `}`)
)
