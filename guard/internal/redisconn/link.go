package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// link is a client's way to one server.
type link struct {
	client  redis.UniversalClient
	timeout time.Duration                        // of an attempt
	server  func() string                        // its address
	failed  func(ctx context.Context, err error) // called with the errors of connections; may be nil
}

// exchange sends script calls in one write, by name, and those that Redis does not know once more in full.
// NOSCRIPT says that nothing was executed, so it is the only answer after which anything is sent again. Each
// call keeps its own error.
func (l *link) exchange(ctx context.Context, calls []call) []noRetryCmd {
	cmds, which := make([]noRetryCmd, len(calls)), make([]int, len(calls))
	for i := range which {
		which[i] = i
	}
	for _, inFull := range []bool{false, true} {
		var to interface {
			Process(ctx context.Context, cmd redis.Cmder) error
		} = l.client
		if len(which) > 1 {
			to = l.client.Pipeline() // Process only queues what is sent by Exec
		}
		for _, i := range which {
			cmds[i] = calls[i].pack(ctx, inFull)
			_ = to.Process(ctx, cmds[i])
		}
		if pipe, ok := to.(redis.Pipeliner); ok && len(which) > 1 {
			_, _ = pipe.Exec(ctx)
		}
		which = slices.DeleteFunc(which, func(i int) bool { return !isNoScript(cmds[i].Err()) })
	}
	return cmds
}

// send sends a command.
func (l *link) send(ctx context.Context, cmd Command) (any, error) {
	return l.resultOf(ctx, cmd, l.exchange(ctx, []call{{cmd}})[0])
}

// resultOf is the reply to a command that had a call by itself.
func (l *link) resultOf(ctx context.Context, of Command, cmd noRetryCmd) (any, error) {
	reply, err := l.result(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return only(of, reply)
}

// result is the reply to a call.
func (l *link) result(ctx context.Context, cmd noRetryCmd) (any, error) {
	if err := l.check(ctx, cmd.Err()); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
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

// deadline is that of an attempt.
func (l *link) deadline(ctx context.Context) time.Time {
	if deadline, ends := ctx.Deadline(); ends {
		return deadline
	}
	return time.Now().Add(l.timeout)
}

// detached is ctx for what is sent for callers that wait elsewhere: it does not end when they leave.
func (l *link) detached(ctx context.Context, at time.Time) *clock.Deadline {
	return clock.WithDeadline(context.WithoutCancel(clock.Caller(ctx)), at)
}
