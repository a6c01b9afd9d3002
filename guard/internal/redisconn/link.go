package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// link is a client's way to one server.
type link struct {
	client  redis.UniversalClient
	timeout time.Duration                        // of an attempt
	server  func() string                        // its address
	failed  func(ctx context.Context, err error) // called with the errors of connections; may be nil
	apart   *atomic.Bool                         // commands share no calls: their keys are in several slots
}

// callMost is how many commands share one call of a script. Redis runs nothing else meanwhile.
const callMost = 128

// Reply is the answer to one of several commands.
type Reply struct {
	Value any
	Err   error
}

// sendAll sends commands in one write, those of one script in calls that they share. A command that Redis did not
// execute as part of a call is sent once more, by itself. answer is called with the reply to each command, by its index.
func (l *link) sendAll(ctx context.Context, cmds []*Command, answer func(i int, r Reply)) {
	which := make([]int, len(cmds))
	for i := range which {
		which[i] = i
	}
	for apart := l.apart.Load(); len(which) > 0; apart = true {
		calls, parts := callsOf(cmds, which, apart)
		which = nil
		for n, cmd := range l.exchange(ctx, calls) {
			if part := parts[n]; len(part) == 1 {
				reply, err := l.reply(ctx, cmds[part[0]].Script, cmd)
				answer(part[0], Reply{reply, err})
			} else {
				which = append(which, l.unpack(ctx, cmd, part, answer)...)
			}
		}
	}
}

// callsOf makes calls of some commands, of each by itself if they are to be apart. It returns their indexes, too.
func callsOf(cmds []*Command, which []int, apart bool) (calls [][]*Command, parts [][]int) {
	open := make(map[*Script]int) // the call that more commands of a script may join
	for _, i := range which {
		s := cmds[i].Script
		alone := apart || !s.many || cmds[i].Alone
		at, is := open[s]
		if alone || !is || len(calls[at]) == callMost {
			at = len(calls)
			calls, parts = append(calls, nil), append(parts, nil)
		}
		if !alone {
			open[s] = at
		}
		calls[at], parts[at] = append(calls[at], cmds[i]), append(parts[at], i)
	}
	return calls, parts
}

// unpack answers the commands that share a call. It returns those that Redis did not execute: all of them if it refused
// the call. A command that it executed before it refused the rest may be executed twice.
func (l *link) unpack(ctx context.Context, cmd noRetryCmd, part []int, answer func(i int, r Reply)) (again []int) {
	err := l.check(ctx, cmd.Err())
	var refusal redis.Error
	if err != nil && !errors.As(err, &refusal) {
		for _, i := range part {
			answer(i, Reply{Err: err})
		}
		return nil
	}
	if redis.HasErrorPrefix(err, "CROSSSLOT") {
		l.apart.Store(true) // one address leads to a cluster
	}
	replies, _ := cmd.Val().([]any)
	if len(replies) != len(part) {
		return part
	}
	for n, i := range part {
		if replies[n] == nil {
			again = append(again, i)
			continue
		}
		refusal, _ := replies[n].(error)
		answer(i, Reply{replies[n], refusal})
	}
	return again
}

// exchange sends script calls in one write, by name, and those that Redis does not know once more in full.
// NOSCRIPT says that nothing was executed, so it is the only answer after which anything is sent again. Each
// call keeps its own error.
func (l *link) exchange(ctx context.Context, calls [][]*Command) []noRetryCmd {
	cmds := make([]noRetryCmd, len(calls))
	for i := range calls {
		cmds[i] = pack(ctx, calls[i], false)
	}
	l.write(ctx, cmds)
	var again []noRetryCmd
	for i := range cmds {
		if isNoScript(cmds[i]) {
			cmds[i] = pack(ctx, calls[i], true)
			again = append(again, cmds[i])
		}
	}
	l.write(ctx, again)
	return cmds
}

// write sends commands, several in one write. Each has its reply then.
func (l *link) write(ctx context.Context, cmds []noRetryCmd) {
	switch len(cmds) {
	case 0:
	case 1:
		_ = l.client.Process(ctx, cmds[0])
	default:
		pipe := l.client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // queues it
		}
		_, _ = pipe.Exec(ctx)
	}
}

// send sends a command by itself.
func (l *link) send(ctx context.Context, cmd Command) (any, error) {
	return l.reply(ctx, cmd.Script, l.exchange(ctx, [][]*Command{{&cmd}})[0])
}

// call sends a command that is no script.
func (l *link) call(ctx context.Context, words []any) (any, error) {
	cmd := noRetryCmd{redis.NewCmd(ctx, words...)}
	_ = l.client.Process(ctx, cmd)
	return cmd.Val(), l.check(ctx, cmd.Err())
}

// reply returns the reply to a command that had a call of its script by itself.
func (l *link) reply(ctx context.Context, of *Script, cmd noRetryCmd) (any, error) {
	if err := l.check(ctx, cmd.Err()); err != nil {
		return nil, err
	}
	if !of.many {
		return cmd.Val(), nil
	}
	list, _ := cmd.Val().([]any)
	if len(list) != 1 || list[0] == nil {
		return nil, fmt.Errorf("unexpected reply of type %T to one command", cmd.Val())
	}
	err, _ := list[0].(error)
	return list[0], err
}

// check looks at the error of a command. That of a connection names the server.
func (l *link) check(ctx context.Context, err error) error {
	var answer redis.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answer):
		if l.failed != nil {
			l.failed(ctx, err)
		}
		return l.named(err)
	case redis.HasErrorPrefix(err, "MOVED"):
		if _, cluster := l.client.(*redis.ClusterClient); !cluster {
			return fmt.Errorf("%w: %w", ErrNeedsCluster, err)
		}
	}
	return err
}

// ErrNeedsCluster says that a client for one Redis was given a node of a cluster.
var ErrNeedsCluster = errors.New("the server is a node of a cluster: give a *redis.ClusterClient")

func (l *link) named(err error) error {
	if name := l.server(); !strings.Contains(err.Error(), name) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}
