package redistest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// settleTimeout is how long a test binary gets to let go of what it holds. What
// is released asynchronously may still be on its way when the tests end.
const settleTimeout = 5 * time.Second

// shared is the server of the whole test binary.
var shared struct {
	mu      sync.Mutex // protects what follows
	running bool       // Run is there to stop the server
	server  *Server
	err     error // why the server did not start, for later callers
}

// Shared returns the server that all tests of the package share. The first call
// starts it; Run stops it. A test on it uses keys of its own, and leaves the
// server as it is: a test that pauses or kills a server calls Start.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	binary := find(tb)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.running {
		tb.Fatal("redistest: Shared needs a TestMain that calls redistest.Run")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = launchShared(binary)
	}
	must(tb, "start", shared.err)
	return shared.server
}

func launchShared(binary string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	return launch(binary, dir, nil)
}

// Run runs the tests, then stops the shared server, and returns the exit code
// for TestMain. It is not zero if a test failed, if a goroutine is left, or if
// the shared server has a key that a finished lock does not leave. Keys
// that begin with one of ignorePrefixes do not count.
func Run(m *testing.M, ignorePrefixes ...string) int {
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()

	code := m.Run()
	err := finishShared(code == 0, ignorePrefixes)
	// Fuzzing leaves goroutines of the testing package itself, and after a
	// failure the leftovers are noise.
	if err == nil && code == 0 && !fuzzing() {
		err = checkGoroutines()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "redistest: %v\n", err)
		return max(code, 1)
	}
	return code
}

func finishShared(check bool, ignorePrefixes []string) error {
	shared.mu.Lock()
	s := shared.server
	shared.running, shared.server = false, nil
	shared.mu.Unlock()
	if s == nil {
		return nil
	}
	var err error
	if check {
		err = checkKeys(s, settleTimeout, ignorePrefixes)
	}
	s.stop()
	_ = os.RemoveAll(s.dir)
	return err
}

func fuzzing() bool {
	for _, name := range []string{"test.fuzz", "test.fuzzworker"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			return true
		}
	}
	return false
}

func checkGoroutines() error {
	deadline := time.Now().Add(settleTimeout)
	for {
		// Find waits a little itself, for less time than a closing client takes
		// on a loaded machine.
		err := goleak.Find()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// checkKeys polls until s has no key left that counts, or time is up.
func checkKeys(s *Server, timeout time.Duration, ignorePrefixes []string) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), timeout+settleTimeout)
	defer cancel()
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		left, err := leftKeys(ctx, c, ignorePrefixes)
		switch {
		case err != nil:
			return fmt.Errorf("look for keys left in the shared server: %w", err)
		case len(left) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d keys left in the shared server after the tests: %q", len(left), left)
		}
	}
}

func leftKeys(ctx context.Context, c *redis.Client, ignorePrefixes []string) ([]string, error) {
	var left []string
	it := c.Scan(ctx, 0, "*", 1000).Iterator()
	for it.Next(ctx) {
		key := it.Val()
		if slices.ContainsFunc(ignorePrefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
			continue
		}
		if ok, err := mayStay(ctx, c, key); err != nil {
			return nil, err
		} else if !ok {
			left = append(left, key)
		}
	}
	return left, it.Err()
}

// mayStay returns whether a finished lock may leave a key for a while: the owners that have ended.
func mayStay(ctx context.Context, c *redis.Client, key string) (bool, error) {
	kind, err := c.Type(ctx, key).Result()
	if err != nil || kind == "none" {
		return kind == "none", err
	}
	return kind == "string" && strings.Contains(key, ":instance:") || kind == "zset" && strings.HasSuffix(key, ":ended"), nil
}
