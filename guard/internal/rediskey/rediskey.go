package rediskey

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// PrefixFault says what is wrong with a prefix: nothing if it can be one.
func PrefixFault(prefix string) string {
	if prefix == "" || strings.ContainsAny(prefix, "{}") || !utf8.ValidString(prefix) {
		return fmt.Sprintf("%q must be UTF-8, not empty and without braces", prefix)
	}
	return ""
}

// Lock is the key of a lock; what belongs to it has this and a ':' in front of its name. {key}
// is a valid hash tag whatever bytes key holds: a '}' would end the tag early, and one at the
// start would make it empty, which scatters the keys of one lock over a cluster.
func Lock(prefix, key string) string { return prefix + ":{" + Tag(key) + "}" }

// Record is the key of what guard.Once knows of a lock.
func Record(prefix, key string) string { return Lock(prefix, key) + ":once" }

// Tag is a key as it stands between the braces.
func Tag(key string) string { return escaper.Replace(key) }

// Of is the reverse of Lock. It is false for what is no lock's own key, as a tag with a '}' in it.
func Of(prefix, lock string) (key string, ok bool) {
	tag, begins := strings.CutPrefix(lock, prefix+":{")
	tag, ends := strings.CutSuffix(tag, "}")
	if !begins || !ends || tag == "" {
		return "", false
	}
	key = unescaper.Replace(tag)
	return key, Tag(key) == tag
}

// Channel is where an instance gets its messages.
func Channel(prefix, instance string) string { return prefix + ":grant:" + instance }

var (
	escaper   = strings.NewReplacer(`\`, `\\`, `}`, `\)`)
	unescaper = strings.NewReplacer(`\\`, `\`, `\)`, `}`)
)
