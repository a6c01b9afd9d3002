package inspect

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/redisstore"
)

//go:embed lua
var lua embed.FS

var (
	lookScript   = newScript(redisstore.Load(lua, "look").Source, true)
	revokeScript = newScript(redisstore.Load(lua, "revoke").Source, false)
	breakScript  = newScript(redisstore.Load(lua, "break").Source, false)
	forgetScript = newScript(redisstore.Load(lua, "forget").Source, false)
)

// script is sent by name and, where Redis does not know it, once more in full. A script that
// only reads goes by commands of Redis 7 for which a read-only user is enough, and where
// there are none, by the others.
type script struct {
	source, sha string
	reads       bool
}

func newScript(source string, reads bool) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:]), reads}
}

// words are a command with its keys and arguments.
func (s *script) words(inFull, readOnly bool, keys []string, args ...any) []any {
	name, text := "evalsha", s.sha
	if inFull {
		name, text = "eval", s.source
	}
	if readOnly {
		name += "_ro"
	}
	words := []any{name, text, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	return append(words, args...)
}

// call is a script on the keys of one lock, and what came of it.
type call struct {
	keys  []string
	args  []any
	reply any
	err   error
}

// run executes a script once for each call, as one pipeline. It returns an error if ctx
// ended first: the calls are not the caller's any more then.
func (s *script) run(ctx context.Context, client redis.UniversalClient, calls []*call) error {
	return heed(ctx, func() { s.runAll(ctx, client, calls) })
}

// heed waits for do no longer than ctx lasts: go-redis does not look at that while it waits
// for a reply.
func heed(ctx context.Context, do func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *script) runAll(ctx context.Context, client redis.UniversalClient, calls []*call) {
	left := calls
	readOnly, inFull := s.reads, false
	for range 3 { // each of the two may be found out once
		s.send(ctx, client, left, inFull, readOnly)
		var again []*call
		asked := readOnly
		for _, c := range left {
			switch {
			case c.err == nil:
			case redis.HasErrorPrefix(c.err, "NOSCRIPT"):
				inFull = true
				again = append(again, c)
			case asked && lacksReadOnly(c.err):
				readOnly = false
				again = append(again, c)
			}
		}
		left = again // an empty pipeline sends nothing
	}
}

func (s *script) send(ctx context.Context, client redis.UniversalClient, calls []*call, inFull, readOnly bool) {
	pipe := client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = redis.NewCmd(ctx, s.words(inFull, readOnly, c.keys, c.args...)...)
		if s.reads {
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		} else {
			_ = pipe.Process(ctx, once{cmds[i]})
		}
	}
	_, err := pipe.Exec(ctx)
	for i, c := range calls {
		// Each command keeps its own error, but go-redis 9.20 forgets why there was no connection.
		if c.reply, c.err = cmds[i].Result(); c.reply == nil && c.err == nil {
			c.err = err
		}
	}
}

// once is a command that go-redis does not send again when its reply was lost: the second
// time, a hold that was broken, or a record, is not there.
type once struct{ *redis.Cmd }

// NoRetry is go-redis's word for it.
func (once) NoRetry() bool { return true }

// lacksReadOnly says that a server does not know read-only scripts, or takes TIME for a command
// that writes, as the embedded one of package guardtest does.
func lacksReadOnly(err error) bool {
	return strings.HasPrefix(strings.ToLower(err.Error()), "err unknown command") ||
		strings.Contains(err.Error(), "Write commands are not allowed in read-only scripts")
}
