package redisconn

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script that is sent by name and, where Redis does not know it, once
// more in full.
type Script struct {
	Source, sha string

	many bool // a call takes any number of commands, and its reply is an array of theirs
}

// NewScript makes a script of its source, a call of which is one command.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{Source: source, sha: hex.EncodeToString(sum[:])}
}

// NewScriptOfMany makes a script a call of which takes any number of commands: KEYS are those of all commands, one
// command after the other; ARGV are the shared arguments once, then those of each command. The
// reply is an array of the commands' replies, in order. nil means that the command was not executed, and has to be
// sent by itself.
func NewScriptOfMany(source string) *Script {
	s := NewScript(source)
	s.many = true
	return s
}

// Command is one run of a script.
type Command struct {
	Script *Script
	Keys   []string
	Shared []string // the arguments that all commands of one call have in common
	Args   []string // the arguments of this command
	Alone  bool     // it must not share a call with other commands of its script
	Acks   AckWait  // how many replicas have to know of what it wrote; zero: none
}

// With makes a command of the script.
func (s *Script) With(keys []string, args ...string) Command {
	return Command{Script: s, Keys: keys, Args: args}
}

// firstKey is where EVAL and EVALSHA have the first key.
const firstKey = 3

// pack makes what go-redis sends: one call of a script, for one or more commands. A pointer saves putting a string on
// the heap.
func pack(ctx context.Context, cmds []*Command, inFull bool) noRetryCmd {
	first := cmds[0]
	words := make([]any, 0, firstKey+len(first.Shared)+len(cmds)*(len(first.Keys)+len(first.Args)))
	if inFull {
		words = append(words, "eval", &first.Script.Source)
	} else {
		words = append(words, "evalsha", &first.Script.sha)
	}
	words = append(words, len(cmds)*len(first.Keys))
	for _, c := range cmds {
		words = appendPointers(words, c.Keys)
	}
	words[firstKey] = first.Keys[0] // go-redis's cluster client reads it
	words = appendPointers(words, first.Shared)
	for _, c := range cmds {
		words = appendPointers(words, c.Args)
	}
	return noRetryCmd{redis.NewCmd(ctx, words...)}
}

func appendPointers(words []any, texts []string) []any {
	for i := range texts {
		words = append(words, &texts[i])
	}
	return words
}

func isNoScript(cmd noRetryCmd) bool {
	return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT")
}

// noRetryCmd is a command that go-redis does not send again when its reply was lost: whether
// to repeat it, and what the answer to a repeated one means, only the caller knows.
type noRetryCmd struct{ *redis.Cmd }

// NoRetry is go-redis's word for it.
func (noRetryCmd) NoRetry() bool { return true }
