package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/internal/redistest"
)

// In a container redlatch is process 1, and those whose parents ended are its own.
func TestInit_AsProcessOneItReapsOrphans(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "-Urpf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	s := redistest.Shared(t)
	// The orphan's parent ends at once. It writes its pid, and ends by a word in a pipe.
	const orphan = `
		cd "$0" && mkfifo go
		sh -c 'sh -c "echo \$\$ >pid; read word <go" &'
		until [ -s pid ]; do sleep 0.02; done
		echo end >go
		n=0
		while [ -e "/proc/$(cat pid)" ]; do
			n=$((n+1)); [ $n -lt 250 ] || exit 9
			sleep 0.02
		done
		exit 3`
	c := prepare(t, s.Addr())
	c.cmd.Path, c.cmd.Args = lookPath(t, "unshare"), []string{
		"unshare", "-Urpf", "--mount-proc", binary, "run", "init", "--", "sh", "-c", orphan, filepath.Clean(t.TempDir()),
	}
	c.start(t)
	assert.Equal(t, 3, c.code(t), c.stderr.String())
	free(t, s.Client(t), "init")
}

// What is left of the command's process group is reaped, too, when the lock was lost: else its
// end would never be seen.
func TestInit_AsProcessOneItSeesTheEndOfTheGroup(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "-Urpf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	s := redistest.Shared(t)
	c := prepare(t, s.Addr())
	c.cmd.Path, c.cmd.Args = lookPath(t, "unshare"), []string{
		"unshare", "-Urpf", "--mount-proc", binary, "run", "--max-hold", "500ms", "--ttl", "300s", "-k", "100s", "init group", "--",
		"sh", "-c", "sleep 1000 & sleep 1000",
	}
	c.start(t)
	assert.Equal(t, 70, c.code(t), c.stderr.String())
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	assert.NoError(t, err)
	return path
}
