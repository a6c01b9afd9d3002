package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	readyTimeout = 15 * time.Second
	readyPoll    = 5 * time.Millisecond
	portAttempts = 10

	// Ports below the ephemeral range: no outgoing connection can take the port
	// of a killed server, and no client that dials a dead port can meet itself.
	firstPort = 10240
	lastPort  = 32000
)

// requireEnv turns the skip for a missing redis-server into a failure.
const requireEnv = "REDLATCH_REQUIRE_REDIS"

// serverEnv is the path of the redis-server to run, if it is not the one in PATH.
const serverEnv = "REDLATCH_REDIS_SERVER"

const installHint = "redis-server is not installed: run 'make test', which installs it, or " +
	"'apt-get install redis-server', 'brew install redis' or 'apk add redis'"

var errExited = errors.New("redis-server exited before it was ready")

// Server is a real redis-server on a loopback port, without persistence. Its
// methods may be called from any goroutine.
type Server struct {
	binary   string
	dir      string
	args     []string
	sentinel string // path of its configuration, if it is a sentinel
	port     int

	mu   sync.Mutex // protects proc
	proc *process
}

// Start runs a redis-server of tb's own, in a temporary directory, and stops it
// when tb ends. Extra arguments go to its command line ("--requirepass", "x").
// Without a redis-server binary, tb is skipped, or fails if the environment has
// REDLATCH_REQUIRE_REDIS=1. REDLATCH_REDIS_SERVER is the path of a binary to run instead of
// the one in PATH; Valkey's serves, too.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	binary := find(tb)
	s, err := launch(binary, tb.TempDir(), args)
	must(tb, "start", err)
	tb.Cleanup(s.stop)
	return s
}

// StartN runs n servers that know nothing of each other, as Start does.
func StartN(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = Start(tb, args...)
	}
	return servers
}

func find(tb testing.TB) string {
	tb.Helper()
	if testing.Testing() && testing.Short() {
		tb.Skip("redistest: -short starts no server")
	}
	binary, err := exec.LookPath(cmp.Or(os.Getenv(serverEnv), "redis-server"))
	if err == nil {
		return binary
	}
	if given := os.Getenv(serverEnv); given != "" {
		tb.Fatalf("redistest: %s=%s: %v", serverEnv, given, err)
	}
	if os.Getenv(requireEnv) == "1" {
		tb.Fatalf("redistest: %s=1, but %s", requireEnv, installHint)
	}
	tb.Skipf("redistest: %s", installHint)
	return ""
}

// launch tries ports until the server is up on one: a port that was free a
// moment ago may be taken by the time redis-server binds it.
func launch(binary, dir string, args []string) (*Server, error) {
	s := &Server{binary: binary, dir: dir, args: args}
	if err := s.launch(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) launch() error {
	var err error
	for range portAttempts {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.boot(); !errors.Is(err, errExited) {
			break
		}
	}
	return err
}

func freePort() (int, error) {
	l, err := listen()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// listen finds a free port and takes it.
func listen() (l net.Listener, err error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if l, err = net.Listen("tcp", loopback(port)); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no free port: %w", err)
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// boot starts the process on s.port and waits until it serves.
func (s *Server) boot() error {
	p, err := startProcess(s.binary, s.dir, s.commandLine())
	if err != nil {
		return err
	}
	if err := s.awaitReady(p); err != nil {
		p.kill()
		return fmt.Errorf("%w\n%s", err, p.output())
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	return nil
}

func (s *Server) commandLine() []string {
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir}
	if s.sentinel != "" {
		return append(append([]string{s.sentinel}, args...), "--sentinel")
	}
	return append(append(args, "--save", "", "--appendonly", "no"), s.args...)
}

func (s *Server) awaitReady(p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := s.probe(ctx, p.cmd.Process.Pid)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return errExited
		case <-ctx.Done():
			return fmt.Errorf("redis-server not ready on %s: %w", s.Addr(), err)
		case <-tick.C:
		}
	}
}

// probe asks whether the server answers, and whether it is ours: if another
// test binary won the race for the port, a stranger answers.
func (s *Server) probe(ctx context.Context, pid int) error {
	// go-redis would retry the dial, and log each time.
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return err
	}
	_ = conn.Close()
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), Password: s.password(), Protocol: 2, MaxRetries: -1,
		DisableIdentity: true, ContextTimeoutEnabled: true, PoolSize: 1,
	})
	defer func() { _ = c.Close() }()
	if err := c.Ping(ctx).Err(); err != nil { // INFO answers while the server still loads its data
		return err
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("another server answers on %s", s.Addr())
	}
	return nil
}

func (s *Server) password() string {
	i := slices.Index(s.args, "--requirepass")
	if i < 0 || i+1 >= len(s.args) {
		return ""
	}
	return s.args[i+1]
}

// Addr is the server's "host:port". It stays the same over a Restart.
func (s *Server) Addr() string { return loopback(s.port) }

// URL is Addr as redis.ParseURL takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client returns a client with go-redis's default options, changed by opts, and
// closes it when tb ends.
func (s *Server) Client(tb testing.TB, opts ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	return newClient(tb, s.Addr(), opts)
}

func newClient(tb testing.TB, addr string, opts []func(*redis.Options)) *redis.Client {
	tb.Helper()
	o := &redis.Options{Addr: addr}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewClient(o)
	closeAtEnd(tb, c)
	return c
}

// closeAtEnd closes a client when tb ends, unless it is closed by then.
func closeAtEnd(tb testing.TB, c io.Closer) {
	tb.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			tb.Errorf("redistest: close client: %v", err)
		}
	})
}

// Pause stops the process where it is: connections stay open, new ones are
// accepted by the kernel, nothing is answered.
func (s *Server) Pause() error { return Stop(s.process().cmd.Process) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return Resume(s.process().cmd.Process) }

// Kill ends the server with SIGKILL and returns when it is gone.
func (s *Server) Kill() { s.process().kill() }

// Restart stops the server if it runs, and starts it on the same port, empty.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	var err error
	for range portAttempts {
		s.stop()
		if err = s.boot(); !errors.Is(err, errExited) {
			break
		}
	}
	must(tb, "restart", err)
}

func (s *Server) stop() { s.process().stop() }

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}
