//go:build unix

package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// The tests in this file stop and kill a process that holds a lock: this test binary,
// started once more.

const (
	holderAddrEnv = "REDLATCH_TEST_HOLDER" // the address of Redis
	killTTL       = time.Second
)

// TestHolderProcess is the other process. It holds the key that it reads until its
// lease is lost, says how that was, and ends with its standard input. In a normal run
// it does nothing.
func TestHolderProcess(t *testing.T) {
	addr := os.Getenv(holderAddrEnv)
	if addr == "" {
		return
	}
	input := bufio.NewReader(os.Stdin)
	key, err := input.ReadString('\n')
	require.NoError(t, err)
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	g, err := guard.New(client, guard.TTL(killTTL))
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	err = g.WithLock(t.Context(), guard.Key(strings.TrimSpace(key)), func(ctx context.Context) error {
		fence, _ := guard.Fence(ctx)
		fmt.Println("holder: fence", fence)
		<-ctx.Done()
		var lost *guard.LostError
		fmt.Println("holder: cause is a LostError", errors.As(context.Cause(ctx), &lost))
		return nil
	})
	fmt.Println("holder: result is ErrLost", errors.Is(err, guard.ErrLost))
	_, _ = io.Copy(io.Discard, input)
}

// holderProcess is that process, seen from here.
type holderProcess struct {
	process *os.Process
	fence   uint64
	lines   chan string
}

func startHolder(t *testing.T, addr, key string) *holderProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$")
	cmd.Env = append(os.Environ(), holderAddrEnv+"="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	h := &holderProcess{process: cmd.Process, lines: make(chan string, 100)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if line, ok := strings.CutPrefix(lines.Text(), "holder: "); ok {
				h.lines <- line
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // how it ended does not matter
	})
	_, err = fmt.Fprintln(in, key)
	require.NoError(t, err)
	h.fence, err = strconv.ParseUint(strings.TrimPrefix(h.line(t), "fence "), 10, 64)
	require.NoError(t, err)
	return h
}

// line is the next thing that the holder says.
func (h *holderProcess) line(t *testing.T) string {
	t.Helper()
	select {
	case line := <-h.lines:
		return line
	case <-time.After(2 * testenv.Patience):
		require.FailNow(t, "nothing from the holder")
		return ""
	}
}

// The holder is stopped until its lock has gone to somebody else, and goes on then. Its
// work ends, and nothing that it does touches the lock.
func TestCrash_AHolderThatIsStoppedForLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	h := startHolder(t, r.Server.Addr(), t.Name())
	require.NoError(t, redistest.Stop(h.process))
	inTime := testenv.Within(t, killTTL+time.Second)
	l, err := r.Acquire(t.Context(), guard.Key(t.Name()), guard.TTL(killTTL))
	require.NoError(t, err)
	inTime()
	assert.Greater(t, l.Fence(), h.fence)
	before := r.Hash(t, t.Name())
	require.NoError(t, h.process.Signal(syscall.SIGCONT))
	assert.Equal(t, "cause is a LostError true", h.line(t))
	assert.Equal(t, "result is ErrLost true", h.line(t))
	r.Seen.More(t, guard.Renewal, 2)
	require.NoError(t, l.Err())
	assert.Equal(t, before, r.Hash(t, t.Name()))
	require.NoError(t, l.Release(t.Context()))
	assert.Empty(t, r.Hash(t, t.Name()))
}
