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

// patience bounds a wait that takes no time on an idle machine.
const patience = 20 * time.Second

// asProgram makes the test binary the program.
const asProgram = "REDLATCH_TEST_PROGRAM"

// binary is the program.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	var err error
	if binary, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// nohup, or a shell in the background, ignores these signals, and the programs that the tests
	// start would inherit that. They do not inherit a signal that this process handles.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	os.Exit(redistest.Run(m))
}

// env is a Redis for calls of the program.
type env struct {
	*testing.T

	server *redistest.Server
	rdb    *redis.Client
	addr   string // in the program's REDIS_URL; "" is none
}

func newEnv(t *testing.T, s *redistest.Server) *env {
	t.Helper()
	t.Parallel()
	return &env{t, s, s.Client(t), s.Addr()}
}

// shared is the Redis of all tests, own one of the test.
func shared(t *testing.T) *env { t.Helper(); return newEnv(t, redistest.Shared(t)) }
func own(t *testing.T) *env    { t.Helper(); return newEnv(t, redistest.Start(t)) }

// at returns the same Redis under another address.
func (r *env) at(addr string) *env { return &env{r.T, r.server, r.rdb, addr} }

// nowhere is an address without a Redis.
func nowhere(t *testing.T) *env { t.Helper(); t.Parallel(); return &env{T: t, addr: "127.0.0.1:1"} }

// file returns a path for the test.
func (r *env) file() string { return filepath.Join(r.TempDir(), "file") }

// call is one call of the program.
type call struct {
	*env

	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
}

func (r *env) prepare(args ...string) *call {
	c := &call{env: r, cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.cmd.WaitDelay = time.Second // a process that was left may hold the pipes
	for _, word := range os.Environ() {
		if !strings.HasPrefix(word, "REDIS_URL=") {
			c.cmd.Env = append(c.cmd.Env, word)
		}
	}
	c.cmd.Env = append(c.cmd.Env, asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	if r.addr != "" {
		c.cmd.Env = append(c.cmd.Env, "REDIS_URL=redis://"+r.addr)
	}
	return c
}

func (r *env) start(args ...string) *call {
	r.Helper()
	return r.prepare(args...).start()
}

func (c *call) start() *call {
	c.Helper()
	require.NoError(c, c.cmd.Start())
	go func() {
		_ = c.cmd.Wait() // ends reads its code
		close(c.ended)
	}()
	c.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
	return c
}

// ends waits for the program's end.
func (c *call) ends(code int) says {
	c.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		require.FailNow(c, "the program does not end")
	}
	assert.Equal(c, code, c.cmd.ProcessState.ExitCode(), c.stderr.String())
	return says{code, c.stdout.String(), c.stderr.String()}
}

func (c *call) signal(sig syscall.Signal) *call {
	c.Helper()
	require.NoError(c, c.cmd.Process.Signal(sig))
	return c
}

// says is the result of a call.
type says struct {
	code           int
	stdout, stderr string
}

// do runs a call that ends with a code.
func (r *env) do(code int, args ...string) says {
	r.Helper()
	return r.start(args...).ends(code)
}

// fails runs a call that ends with a code and a text on standard error.
func (r *env) fails(code int, text string, args ...string) {
	r.Helper()
	assert.Contains(r, r.do(code, args...).stderr, text)
}

func (r *env) eventually(what string, is func() bool) {
	r.Helper()
	require.Eventually(r, is, patience, 5*time.Millisecond, what)
}

// held waits until a key is held.
func (r *env) held(key string) {
	r.Helper()
	r.eventually(key+" is held", func() bool { return r.rdb.Exists(r.Context(), "redlatch:{"+key+"}").Val() == 1 })
}

func (r *env) free(key string) {
	r.Helper()
	n, err := r.rdb.Exists(r.Context(), "redlatch:{"+key+"}").Result()
	require.NoError(r, err)
	assert.Zero(r, n, "%s is held", key)
}

// waits waits until n callers wait.
func (r *env) waits(key string, n int64) {
	r.Helper()
	r.eventually("so many wait", func() bool { return r.rdb.ZCount(r.Context(), "redlatch:{"+key+"}:queue", "-inf", "+inf").Val() == n })
}

// lines returns the lines of a file that may not exist yet.
func lines(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// awaits waits until a file has n lines.
func (r *env) awaits(file string, n int) {
	r.Helper()
	r.eventually("lines", func() bool { return len(lines(file)) == n })
}

func (r *env) touch(file string) {
	r.Helper()
	require.NoError(r, os.WriteFile(file, nil, 0o600))
}
