package guardasynq_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
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

// workOnEnv names the queue, prefix and Redis of the process of TestKilled: "queue prefix host:port".
const workOnEnv = "REDLATCH_TEST_WORK_ON"

// A worker is killed in the middle of a task, and asynq gives the task to another worker. With Once, the task runs
// again, after the lease, and learns of the run before. With AtMostOnce it does not.
func TestKilled_OnceRunsTheTaskAgainAndAtMostOnceDoesNot(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]guard.OnceOption{"once": nil, "at most once": {guard.AtMostOnce()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, g := newLive(t), realGuard(t)
			t.Cleanup(func() { _, _ = g.Forget(context.Background(), guard.Key("order:7")) })
			info := l.enqueue(t, task(), asynq.MaxRetry(1))
			killed := l.killInTheMiddle(t, info.ID)

			ran := make(chan [2]uint64, 1) // the fences of this run and of the one before
			rule := orders(guard.Wait(patience)).Once(time.Hour, opts...)
			l.serve(t, asynq.Config{RetryDelayFunc: atOnce}, guardasynq.Middleware(g, rule), func(ctx context.Context, _ *asynq.Task) error {
				fence, _ := guard.Fence(ctx)
				before, _ := guard.Interrupted(ctx)
				ran <- [2]uint64{fence, before}
				return nil
			})
			end := asynq.TaskStateArchived
			if opts == nil {
				end = asynq.TaskStateCompleted
				fences := <-ran
				assert.Greater(t, fences[0], killed)
				assert.Equal(t, killed, fences[1])
			} else {
				require.ErrorIs(t, l.failure(t), guard.ErrUnknownOutcome)
			}
			l.reaches(t, info.ID, end)
			again := l.enqueue(t, task())
			l.reaches(t, again.ID, end)
			assert.Empty(t, ran)
		})
	}
}

// killInTheMiddle starts a process that takes the task, and kills it. It returns the fence of that process.
func (l *live) killInTheMiddle(t *testing.T, id string) (fence uint64) {
	t.Helper()
	worker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledProcess$")
	worker.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", workOnEnv, l.queue, strings.ToLower(t.Name()), redistest.Shared(t).Addr()))
	worker.Stderr = os.Stderr
	_, err := worker.StdinPipe() // ends with this process
	require.NoError(t, err)
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscanf(line, "fence %d", &fence)
	require.NoError(t, err, line)
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	// Asynq gives up a worker after a minute of silence. Here the minute is over.
	silent := redis.Z{Score: float64(time.Now().Add(-time.Hour).Unix()), Member: id}
	require.NoError(t, redistest.Shared(t).Client(t).ZAddXX(t.Context(), "asynq:{"+l.queue+"}:lease", silent).Err())
	return fence
}

// TestKilledProcess is the worker that is killed.
func TestKilledProcess(t *testing.T) {
	var queue, prefix, addr string
	if _, err := fmt.Sscan(os.Getenv(workOnEnv), &queue, &prefix, &addr); err != nil {
		t.Skip("a process of TestKilled")
	}
	g, err := guard.New(redis.NewClient(&redis.Options{Addr: addr}), guard.Prefix(prefix), guard.TTL(2*time.Second))
	require.NoError(t, err)
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: addr}, guardasynq.Configure(asynq.Config{
		Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: 20 * time.Millisecond,
	}))
	lock := guardasynq.Middleware(g, orders().Once(time.Hour))
	require.NoError(t, srv.Start(lock(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		fence, _ := guard.Fence(ctx)
		fmt.Println("fence", fence)
		select {}
	}))))
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}
