package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ackWait is how many replicas have to know of what a command wrote, and how long that may
// take.
type ackWait struct {
	n       int
	timeout time.Duration
}

// lagError is not a refusal: the hold is there, and has to be given back.
type lagError struct {
	ackWait
	acks any
}

func (e lagError) Error() string {
	return fmt.Sprintf("%v of %d replicas knew of the lock after %v", e.acks, e.n, e.timeout)
}

// run executes a script, and then waits for the replicas on the same connection, as
// WAIT is about what that connection wrote. The error is a lagError, beside the reply, if
// too few know.
func (r ackWait) run(ctx context.Context, client redis.UniversalClient, c command) (reply any, err error) {
	send := func(inFull bool) (once, once) {
		cmd := newOnce(ctx, c, inFull)
		wait := once{redis.NewCmd(ctx, "wait", r.n, r.timeout.Milliseconds())}
		pipe := client.Pipeline()
		_, _ = pipe.Process(ctx, cmd), pipe.Process(ctx, wait) // only queues them
		_, _ = pipe.Exec(ctx)                                  // each keeps its own error
		return cmd, wait
	}
	cmd, wait := send(false)
	if isNoScript(cmd.Err()) {
		cmd, wait = send(true)
	}
	switch {
	case cmd.Err() != nil:
		return nil, cmd.Err()
	case wait.Err() != nil:
		return nil, fmt.Errorf("waiting for replicas: %w", wait.Err())
	}
	if acks, ok := wait.Val().(int64); !ok || acks < int64(r.n) {
		err = lagError{r, wait.Val()}
	}
	return cmd.Val(), err
}
