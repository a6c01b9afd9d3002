package guard

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA1
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script that is sent by name and, where Redis does not know it, once
// more in full.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &script{source, hex.EncodeToString(sum[:])}
}

// name is how Redis is told which script to run.
func (s *script) name(inFull bool) (command string, text *string) {
	if inFull {
		return "eval", &s.source
	}
	return "evalsha", &s.sha
}

// command is a script with its keys and arguments.
type command interface {
	script() *script
	keys() []string
	// args appends the arguments. They may be pointers, which saves putting their values on
	// the heap.
	args(words []any) []any
}

// scripted is a command that is not sent often.
type scripted struct {
	of   *script
	on   []string
	with []any
}

func (s scripted) script() *script        { return s.of }
func (s scripted) keys() []string         { return s.on }
func (s scripted) args(words []any) []any { return append(words, s.with...) }

func (s *script) with(keys []string, args ...any) scripted { return scripted{s, keys, args} }

// firstKey is where EVAL and EVALSHA have it.
const firstKey = 3

// newOnce makes what go-redis sends.
func newOnce(ctx context.Context, c command, inFull bool) once {
	s, keys := c.script(), c.keys()
	words := make([]any, 0, firstKey+len(keys)+8)
	name, text := s.name(inFull)
	words = append(words, name, text, len(keys), keys[0]) // a cluster client looks for the first one
	for i := 1; i < len(keys); i++ {
		words = append(words, &keys[i])
	}
	return onceOf(ctx, c.args(words))
}

func onceOf(ctx context.Context, words []any) once {
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(firstKey)
	return once{cmd}
}

// processor is the part of a client, or of a pipeline, that takes a command.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run executes a command once. NOSCRIPT says that nothing was executed, so that it alone
// is answered by sending the source.
func run(ctx context.Context, c command, to processor) (any, error) {
	cmd := newOnce(ctx, c, false)
	err := to.Process(ctx, cmd)
	if isNoScript(err) {
		cmd = newOnce(ctx, c, true)
		err = to.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

func isNoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// once is a command that go-redis does not send again when its reply was lost: whether
// to repeat it, and what the answer to a repeated one means, only the caller knows.
type once struct{ *redis.Cmd }

// NoRetry is go-redis's word for it.
func (once) NoRetry() bool { return true }
