package guardasynq_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/internal/redistest"
	guardasynq "github.com/redlatch/redlatch/middleware/asynq"
)

// workOnEnv tells a re-executed test binary to work on the tasks of a queue, on a Redis:
// "queue@host:port".
const workOnEnv = "REDLATCH_TEST_WORK_ON"

// killedTTL leaves time to look at the lock after its holder's death.
const killedTTL = 3 * time.Second

// workUntilKilled is what the re-executed test binary does: it prints the fence of its
// first task and does not end it. Its standard input ends with the test, should nobody
// kill it.
func workUntilKilled(queueOnRedis string) error {
	queue, addr, _ := strings.Cut(queueOnRedis, "@")
	g, err := guard.New(redis.NewClient(&redis.Options{Addr: addr}), guard.Prefix(queue), guard.TTL(killedTTL))
	if err != nil {
		return err
	}
	// With one worker, it cannot take the task a second time itself.
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, fast(queue, asynq.Config{Concurrency: 1}))
	err = srv.Start(lockOrders(g)(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		fence, _ := guard.Fence(ctx)
		fmt.Println(fence)
		select {}
	})))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startWorker starts a process that is in the middle of the task, and returns its fence.
func (l *live) startWorker(t *testing.T) (worker *exec.Cmd, fence uint64) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	worker = exec.CommandContext(t.Context(), binary)
	worker.Env = append(os.Environ(), workOnEnv+"="+l.queue+"@"+redistest.Shared(t).Addr())
	_, err = worker.StdinPipe()
	require.NoError(t, err)
	stdout, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	fence, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	require.NoErrorf(t, err, "the worker says %q", line)
	return worker, fence
}

func TestLiveKilled_LiveTaskOfAKilledWorkerRunsAgainAfterItsLease(t *testing.T) {
	t.Parallel()
	l, rdb := newLive(t), redistest.Shared(t).Client(t)
	info := l.enqueue(t, asynq.MaxRetry(2))
	worker, victimsFence := l.startWorker(t)

	// Asynq gives up a worker that it has not heard of for a minute; here the minute is
	// over while the worker lives.
	gone := float64(time.Now().Add(-time.Hour).Unix())
	require.NoError(t, rdb.ZAddXX(t.Context(), "asynq:{"+l.queue+"}:lease", redis.Z{Score: gone, Member: info.ID}).Err())
	var killed atomic.Bool
	begun := make(chan time.Time, 1)
	mw := lockOrders(realGuard(t), guard.NoWait())
	cfg := asynq.Config{RetryDelayFunc: atOnce}
	l.serve(t, guardasynq.Configure(cfg), mw, func(ctx context.Context, _ *asynq.Task) error {
		begun <- time.Now()
		assert.True(t, killed.Load(), "beside a living one")
		fence, ok := guard.Fence(ctx)
		assert.True(t, ok)
		assert.Greater(t, fence, victimsFence)
		return nil
	})
	l.busyFor(t, killedTTL)

	killed.Store(true)
	require.NoError(t, worker.Process.Kill())
	assert.Error(t, worker.Wait(), "the worker was not killed")
	asked := time.Now()
	left, err := rdb.PTTL(t.Context(), l.queue+":{order:7}").Result()
	require.NoError(t, err)
	assert.Positive(t, left, "the lock outlives its holder")
	// To the resolution of Redis's clock.
	assert.False(t, (<-begun).Before(asked.Add(left-5*time.Millisecond)), "while the lock was held")
	assert.Equal(t, 1, l.reaches(t, info.ID, asynq.TaskStateCompleted).Retried, "asynq counts the lost worker")
}
