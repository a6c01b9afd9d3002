//go:build unix

package main

import (
	"database/sql"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startPostgres gives the PostgreSQL of DATABASE_URL, or runs one in a directory of its
// own that listens on a socket there. Without PostgreSQL's programs, t is skipped.
func startPostgres(t *testing.T) (databaseURL string) {
	t.Helper()
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return url
	}
	initdb, server := postgresProgram(t, "initdb"), postgresProgram(t, "postgres")
	dir, err := os.MkdirTemp("", "pg-") //nolint:usetesting // t.TempDir is too long for a socket, and closed to other users
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := notRoot(t, dir)

	data := filepath.Join(dir, "data")
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	out, err := run(initdb, "-D", data, "-A", "trust", "-U", "fencing", "--no-sync", "--locale=C").CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := run(server, "-D", data, "-k", dir, "-F", "-c", "listen_addresses=")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // at once; nobody needs the data
		_ = cmd.Wait()
	})

	databaseURL = "host=" + dir + " user=fencing dbname=postgres"
	db, err := sql.Open("pgx", databaseURL)
	require.NoError(t, err)
	defer db.Close()
	require.Eventually(t, func() bool { return db.PingContext(t.Context()) == nil }, patience, 20*time.Millisecond)
	return databaseURL
}

// postgresProgram looks where Debian puts what is not for everybody's PATH.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	return slices.Max(found)
}

// notRoot gives dir to the user of Debian's package: PostgreSQL refuses to run as root.
func notRoot(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Skipf("PostgreSQL does not run as root: %v", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
