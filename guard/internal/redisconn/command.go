package redisconn

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"

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

// name says to Redis which script to run.
func (s *Script) name(inFull bool) (command string, text *string) {
	if inFull {
		return "eval", &s.Source
	}
	return "evalsha", &s.sha
}

// Command is what a script is to do, with its keys and arguments. Arguments may be pointers, which saves
// putting their values on the heap.
type Command interface {
	Script() *Script
	Keys() []string
	// Shared appends the arguments that all commands of one call share; Args appends those of this command.
	Shared(words []any) []any
	Args(words []any) []any
	// Alone says that the command must not share a call with others of its script.
	Alone() bool
}

// Scripted is a command that is not sent often.
type Scripted struct {
	of   *Script
	on   []string
	with []any
}

// Script implements Command.
func (s Scripted) Script() *Script { return s.of }

// Keys implements Command.
func (s Scripted) Keys() []string { return s.on }

// Args implements Command.
func (s Scripted) Args(words []any) []any { return append(words, s.with...) }

// Shared implements Command.
func (Scripted) Shared(words []any) []any { return words }

// Alone implements Command.
func (Scripted) Alone() bool { return true }

// With makes a command of the script.
func (s *Script) With(keys []string, args ...any) Scripted { return Scripted{s, keys, args} }

// firstKey is where EVAL and EVALSHA have it.
const firstKey = 3

// call is one or more commands that share a call of their script.
type call []Command

// pack makes what go-redis sends.
func (cmds call) pack(ctx context.Context, inFull bool) noRetryCmd {
	s, keys := cmds[0].Script(), cmds[0].Keys()
	words := make([]any, 0, firstKey+len(cmds)*(len(keys)+8))
	name, text := s.name(inFull)
	words = append(words, name, text, len(cmds)*len(keys), keys[0]) // a cluster client looks for the first one
	for k := 1; k < len(keys); k++ {
		words = append(words, &keys[k])
	}
	for _, c := range cmds[1:] {
		keys := c.Keys()
		for k := range keys {
			words = append(words, &keys[k])
		}
	}
	words = cmds[0].Shared(words)
	for _, c := range cmds {
		words = c.Args(words)
	}
	return cmdOf(ctx, words)
}

// only returns the reply to a call of one command.
func only(c Command, reply any) (any, error) {
	if !c.Script().many {
		return reply, nil
	}
	list, _ := reply.([]any)
	if len(list) != 1 || list[0] == nil {
		return nil, fmt.Errorf("unexpected reply of type %T to one command", reply)
	}
	err, _ := list[0].(error)
	return list[0], err
}

func cmdOf(ctx context.Context, words []any) noRetryCmd {
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(firstKey)
	return noRetryCmd{cmd}
}

func isNoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// noRetryCmd is a command that go-redis does not send again when its reply was lost: whether
// to repeat it, and what the answer to a repeated one means, only the caller knows.
type noRetryCmd struct{ *redis.Cmd }

// NoRetry is go-redis's word for it.
func (noRetryCmd) NoRetry() bool { return true }
