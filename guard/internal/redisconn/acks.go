package redisconn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// AckWait is how many replicas have to know of what a command wrote, and how long that may
// take.
type AckWait struct {
	N       int
	Timeout time.Duration
}

// AckError is not a refusal, even where Redis refused WAIT: the hold is there, and has to be given back.
type AckError struct {
	AckWait

	acks any
	wait error // why there is no number of replicas
}

func (e AckError) Error() string {
	if e.wait != nil {
		return "waiting for replicas: " + e.wait.Error()
	}
	return fmt.Sprintf("%v of %d replicas knew of the lock after %v", e.acks, e.N, e.Timeout)
}

// sendAcked sends a command, and waits for the replicas on the same connection, as WAIT is about what that connection
// wrote. If too few know of it, or it is not known how many do, it returns an AckError next to the reply.
func (l *link) sendAcked(ctx context.Context, c Command) (any, error) {
	var cmd, wait noRetryCmd
	for _, inFull := range []bool{false, true} {
		cmd = pack(ctx, []*Command{&c}, inFull)
		wait = noRetryCmd{redis.NewCmd(ctx, "wait", c.Acks.N, c.Acks.Timeout.Milliseconds())}
		pipe := l.client.Pipeline()
		_, _ = pipe.Process(ctx, cmd), pipe.Process(ctx, wait) // only queues them
		_, _ = pipe.Exec(ctx)                                  // each keeps its own error
		if !isNoScript(cmd) {
			break
		}
	}
	reply, err := l.reply(ctx, c.Script, cmd)
	if err != nil {
		return nil, err
	}
	if acks, _ := wait.Val().(int64); acks < int64(c.Acks.N) { // no number is none
		err = AckError{c.Acks, wait.Val(), wait.Err()}
	}
	return reply, err
}
