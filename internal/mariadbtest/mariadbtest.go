//go:build unix

// Package mariadbtest runs a real MariaDB for tests: in a directory of its own, on a socket there,
// without a port.
package mariadbtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	readyTimeout = 30 * time.Second
	readyPoll    = 20 * time.Millisecond
)

// dsnEnv is the data source of a MariaDB or MySQL to use instead: user:password@tcp(host:port)/database.
const dsnEnv = "MYSQL_DSN"

// requireEnv turns the skip for a missing MariaDB into a failure.
const requireEnv = "REDLATCH_REQUIRE_MARIADB"

const installHint = "MariaDB is not installed: run 'make mariadb', or 'apt-get install mariadb-server'"

var errMissing = errors.New(installHint)

// server is one run of mariadbd.
type server struct {
	dir string
	cmd *exec.Cmd
}

var shared struct {
	sync.Mutex
	server *server
}

// Shared returns the data source of an empty database, in the form of github.com/go-sql-driver/mysql,
// with one server for all tests of the package. TestMain calls Stop. With MYSQL_DSN, Shared returns
// that. Without MariaDB's programs, tb is skipped, or fails if the environment has
// REDLATCH_REQUIRE_MARIADB=1.
func Shared(tb testing.TB) (dataSource string) {
	tb.Helper()
	if dsn := os.Getenv(dsnEnv); dsn != "" {
		return dsn
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := launch()
		switch {
		case err == nil:
			shared.server = s
		case errors.Is(err, errMissing) && os.Getenv(requireEnv) != "1":
			tb.Skipf("mariadbtest: %v", err)
		default:
			tb.Fatalf("mariadbtest: %v", err)
		}
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

func launch() (_ *server, err error) {
	// A path below /tmp of a few bytes: that of a socket has at most 107.
	dir, err := os.MkdirTemp("", "my-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	install, err := s.command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db")
	if err != nil {
		return nil, err
	}
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	init := dir + "/init.sql"
	if err := os.WriteFile(init, []byte("CREATE DATABASE test CHARACTER SET utf8mb4;\n"), 0o600); err != nil {
		return nil, err
	}
	daemon, err := s.command("mariadbd", "--socket="+s.socket(), "--skip-networking", "--init-file="+init,
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(dir + "/log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	daemon.Stderr = log
	if err := daemon.Start(); err != nil {
		return nil, err
	}
	s.cmd = daemon
	return s, s.awaitReady()
}

// command is one of MariaDB's programs, on the server's data and without the files of /etc/mysql.
func (s *server) command(program string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + program); err != nil {
			return nil, errMissing
		}
	}
	args = append([]string{"--no-defaults", "--datadir=" + s.dir + "/data"}, args...)
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // else it refuses to run as root
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	return cmd, nil
}

func (s *server) socket() string { return s.dir + "/s" }

func (s *server) dataSource() string { return "root@unix(" + s.socket() + ")/test" }

// awaitReady returns when the server listens. It serves after init.sql: clients wait for that.
func (s *server) awaitReady() error {
	for end := time.Now().Add(readyTimeout); ; time.Sleep(readyPoll) {
		conn, err := net.Dial("unix", s.socket())
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(s.dir + "/log")
			return fmt.Errorf("mariadbd is not ready after %v: %w\n%s", readyTimeout, err, log)
		}
	}
}

func (s *server) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGKILL) // at once; the data is not needed
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}
