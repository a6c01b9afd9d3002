//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

// patience is for what takes no time on an idle machine.
const patience = 20 * time.Second

// binary is the program, built for the tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "redlatch")
	if err == nil {
		binary = filepath.Join(dir, "redlatch")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// nohup, or a shell in the background, has these ignored, and the programs that the tests
	// start would inherit that. What somebody takes notice of begins anew in them.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	code := redistest.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// call is one call of the program.
type call struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
}

// start starts the program on a Redis, "" for none.
func start(t *testing.T, addr string, args ...string) *call {
	t.Helper()
	c := prepare(t, addr, args...)
	c.start(t)
	return c
}

func prepare(t *testing.T, addr string, args ...string) *call {
	t.Helper()
	c := &call{cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.cmd.WaitDelay = time.Second // whoever is left behind may hold the pipes
	for _, word := range os.Environ() {
		if !strings.HasPrefix(word, "REDIS_URL=") {
			c.cmd.Env = append(c.cmd.Env, word)
		}
	}
	if addr != "" {
		c.cmd.Env = append(c.cmd.Env, "REDIS_URL=redis://"+addr)
	}
	return c
}

func (c *call) start(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // its code is asked for
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
}

// code waits for the program's end.
func (c *call) code(t *testing.T) int {
	t.Helper()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		require.FailNow(t, "the program does not end")
		return 0
	}
}

func (c *call) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(sig))
}

// says is a call that has ended.
type says struct {
	code           int
	stdout, stderr string
}

func do(t *testing.T, addr string, args ...string) says {
	t.Helper()
	c := start(t, addr, args...)
	code := c.code(t)
	return says{code, c.stdout.String(), c.stderr.String()}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patience, 5*time.Millisecond, what)
}

// held waits until a key is held.
func held(t *testing.T, client redis.UniversalClient, key string) {
	t.Helper()
	eventually(t, key+" is held", func() bool { return client.Exists(t.Context(), "guard:{"+key+"}").Val() == 1 })
}

func free(t *testing.T, client redis.UniversalClient, key string) {
	t.Helper()
	n, err := client.Exists(t.Context(), "guard:{"+key+"}").Result()
	require.NoError(t, err)
	assert.Zero(t, n, "%s is held", key)
}

func waiting(t *testing.T, client redis.UniversalClient, key string) int64 {
	t.Helper()
	return client.ZCard(t.Context(), "guard:{"+key+"}:queue").Val()
}

// lines of a file that may not be there yet.
func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}
