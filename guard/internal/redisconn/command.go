package redisconn

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA1
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script that is sent by name and, where Redis does not know it, once
// more in full.
type Script struct{ Source, sha string }

// NewScript makes a script of its source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &Script{source, hex.EncodeToString(sum[:])}
}

// name says to Redis which script to run.
func (s *Script) name(inFull bool) (command string, text *string) {
	if inFull {
		return "eval", &s.Source
	}
	return "evalsha", &s.sha
}

// Command is a script with its keys and arguments.
type Command interface {
	Script() *Script
	Keys() []string
	// Args appends the arguments. They may be pointers, which saves putting their values on
	// the heap.
	Args(words []any) []any
	// Batch is nil if the command has to go by itself.
	Batch() *Batch
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

// Batch implements Command: it goes by itself.
func (Scripted) Batch() *Batch { return nil }

// With makes a command of the script.
func (s *Script) With(keys []string, args ...any) Scripted { return Scripted{s, keys, args} }

// firstKey is where EVAL and EVALSHA have it.
const firstKey = 3

// newCmd makes what go-redis sends.
func newCmd(ctx context.Context, c Command, inFull bool) noRetryCmd {
	s, keys := c.Script(), c.Keys()
	words := make([]any, 0, firstKey+len(keys)+8)
	name, text := s.name(inFull)
	words = append(words, name, text, len(keys), keys[0]) // a cluster client looks for the first one
	for i := 1; i < len(keys); i++ {
		words = append(words, &keys[i])
	}
	return cmdOf(ctx, c.Args(words))
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
