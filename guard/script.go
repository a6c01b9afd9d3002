package guard

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA1
	_ "embed"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/queue.lua
	queueLua string
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/depth.lua
	depthLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/release.lua
	releaseLua string

	//go:embed lua/wait.lua
	waitLua string
	//go:embed lua/wake.lua
	wakeLua string
	//go:embed lua/undo.lua
	undoLua string
	//go:embed lua/raise.lua
	raiseLua string

	acquireScript = newScript(include(acquireLua))
	depthScript   = newScript(depthLua)
	renewScript   = newScript(renewLua)
	releaseScript = newScript(include(releaseLua))
	waitScript    = newScript(waitLua)
	wakeScript    = newScript(wakeLua)
	undoScript    = newScript(undoLua)
	raiseScript   = newScript(raiseLua)
)

// script is a Lua script that is sent by name and, where Redis does not know it, once
// more in full.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	return &script{source, hex.EncodeToString(sum[:])}
}

// include puts the shared parts where a script says so.
func include(source string) string {
	return strings.NewReplacer("-- include take\n", takeLua, "-- include queue\n", queueLua).Replace(source)
}

// processor is the part of a client, or of a pipeline, that takes a command.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// starter can send a command and return at once.
type starter interface {
	processor
	start(p parcel)
}

// command is a script with its keys and arguments.
type command struct {
	script *script
	words  []any
}

// with makes a command. Arguments may be pointers, which saves putting their values on
// the heap, but for the first key, by which a cluster client finds the node.
func (s *script) with(keys []string, args ...any) command {
	words := make([]any, 0, firstKey+len(keys)+len(args))
	words = append(words, "evalsha", &s.sha, len(keys), keys[0])
	for i := 1; i < len(keys); i++ {
		words = append(words, &keys[i])
	}
	return command{s, append(words, args...)}
}

func (c command) byName(ctx context.Context) once { return newOnce(ctx, c.words) }

func (c command) inFull(ctx context.Context) once {
	words := slices.Clone(c.words)
	words[0], words[1] = "eval", &c.script.source
	return newOnce(ctx, words)
}

// start is run for a caller that leaves at the end of leave.
func (c command) start(ctx, leave context.Context, to starter, done func(any, error)) {
	cmd := c.byName(ctx)
	to.start(parcel{ctx, leave, cmd, func(err error) {
		if !isNoScript(err) {
			cmd.finish(err, done)
			return
		}
		full := c.inFull(ctx)
		to.start(parcel{ctx, leave, full, func(err error) { full.finish(err, done) }})
	}})
}

// run executes the script once. NOSCRIPT says that nothing was executed, so that it
// alone is answered by sending the source.
func (c command) run(ctx context.Context, to processor) (any, error) {
	cmd := c.byName(ctx)
	err := to.Process(ctx, cmd)
	if isNoScript(err) {
		cmd = c.inFull(ctx)
		err = to.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err // the command may still be on its way: it is not to be looked at
	}
	return cmd.Val(), nil
}

func isNoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// once is a command that go-redis does not send again when its reply was lost: whether
// to repeat it, and what the answer to a repeated one means, only the caller knows.
type once struct{ *redis.Cmd }

// NoRetry is go-redis's word for it.
func (once) NoRetry() bool { return true }

// firstKey is where EVAL and EVALSHA have it.
const firstKey = 3

func newOnce(ctx context.Context, words []any) once {
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(firstKey)
	return once{cmd}
}

// finish tells what came of the command, which may still be on its way if it failed.
func (o once) finish(err error, done func(any, error)) {
	if err != nil {
		done(nil, err)
		return
	}
	done(o.Val(), nil)
}

// newPlain makes a command that is no script.
func newPlain(ctx context.Context, args ...any) once {
	return once{redis.NewCmd(ctx, args...)}
}
