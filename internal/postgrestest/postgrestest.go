//go:build unix

// Package postgrestest runs a real PostgreSQL for tests: in a directory of its own, on a socket
// there, without a port.
package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	readyTimeout = 30 * time.Second
	readyPoll    = 20 * time.Millisecond
)

// urlEnv is the URL of a PostgreSQL to use instead.
const urlEnv = "DATABASE_URL"

// requireEnv turns the skip for a missing PostgreSQL into a failure.
const requireEnv = "REDLATCH_REQUIRE_POSTGRESQL"

const installHint = "PostgreSQL is not installed: run 'make postgres', or 'apt-get install postgresql'"

var errMissing = errors.New(installHint)

// server is one run of postgres.
type server struct {
	dir string
	cmd *exec.Cmd
}

var shared struct {
	sync.Mutex
	server *server
}

// Start returns the data source of a PostgreSQL that stops when tb ends. With DATABASE_URL it is that
// one, which stays. Without PostgreSQL's programs, tb is skipped, or fails if the environment has
// REDLATCH_REQUIRE_POSTGRESQL=1.
func Start(tb testing.TB) (dataSource string) {
	tb.Helper()
	if url := os.Getenv(urlEnv); url != "" {
		return url
	}
	s := mustLaunch(tb)
	tb.Cleanup(s.stop)
	return s.dataSource()
}

// Shared is Start with one server for all tests of the package, whose TestMain calls Stop.
func Shared(tb testing.TB) (dataSource string) {
	tb.Helper()
	if url := os.Getenv(urlEnv); url != "" {
		return url
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		shared.server = mustLaunch(tb)
	}
	return shared.server.dataSource()
}

// Stop ends the server of Shared, if there is one.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.stop()
		shared.server = nil
	}
}

func mustLaunch(tb testing.TB) *server {
	tb.Helper()
	s, err := launch()
	switch {
	case err == nil:
		return s
	case errors.Is(err, errMissing) && os.Getenv(requireEnv) != "1":
		tb.Skipf("postgrestest: %v", err)
	default:
		tb.Fatalf("postgrestest: %v", err)
	}
	return nil
}

func launch() (_ *server, err error) {
	// A path below /tmp of a few bytes: that of a socket has at most 107.
	dir, err := os.MkdirTemp("", "pg-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	as, err := notRoot(dir)
	if err != nil {
		return nil, err
	}
	initdb, err := s.command(as, "initdb", "-D", dir+"/data", "-A", "trust", "-U", "test", "--no-sync", "--locale=C", "-E", "UTF8")
	if err != nil {
		return nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	postgres, err := s.command(as, "postgres", "-D", dir+"/data", "-k", dir, "-F", "-c", "listen_addresses=")
	if err != nil {
		return nil, err
	}
	if err := postgres.Start(); err != nil {
		return nil, err
	}
	s.cmd = postgres
	return s, s.awaitReady(as)
}

func (s *server) command(as *syscall.SysProcAttr, program string, args ...string) (*exec.Cmd, error) {
	path, err := find(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, as
	return cmd, nil
}

func (s *server) awaitReady(as *syscall.SysProcAttr) error {
	for end := time.Now().Add(readyTimeout); ; time.Sleep(readyPoll) {
		ready, err := s.command(as, "pg_isready", "-h", s.dir, "-q")
		if err != nil {
			return err
		}
		if err = ready.Run(); err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("postgres is not ready after %v: %w", readyTimeout, err)
		}
	}
}

func (s *server) dataSource() string { return "host=" + s.dir + " user=test dbname=postgres" }

func (s *server) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // at once; the data is not needed
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// find looks where Debian and Homebrew put programs that are not in the PATH.
func find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/lib/postgresql/*", "/opt/homebrew/opt/postgresql@*", "/usr/local/opt/postgresql@*"} {
		if found, _ := filepath.Glob(dir + "/bin/" + program); len(found) > 0 {
			return slices.Max(found), nil
		}
	}
	return "", errMissing
}

// notRoot gives dir to the user of Debian's package: PostgreSQL refuses to run as root.
func notRoot(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errMissing
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
