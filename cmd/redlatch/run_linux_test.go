package main

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A killed redlatch no longer renews: its command must not run without the lock.
func TestRun_CommandDiesWithRedlatch(t *testing.T) {
	r, p := own(t), newPipe(t)
	c := r.start("run", "k", "--", "sh", "-c", `exec 3>"$0"; while :; do echo command >&3; echo child >&3; sleep 0.02; done`, p.path)
	p.works()
	c.signal(syscall.SIGKILL)
	p.gone()
	c.ends(-1)
}

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

// In a container redlatch is process 1. It reaps processes whose parents ended, also those of the command's process group
// after a loss: otherwise the group would never be empty.
func TestRun_AsProcessOneItReapsOrphans(t *testing.T) {
	r := shared(t)
	if out, err := exec.CommandContext(t.Context(), "unshare", "-Urpf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	path, err := exec.LookPath("unshare")
	require.NoError(t, err)
	asOne := func(code int, args ...string) {
		c := r.prepare()
		c.cmd.Path, c.cmd.Args = path, append([]string{"unshare", "-Urpf", "--mount-proc", binary, "run"}, args...)
		c.start().ends(code)
	}
	asOne(3, "init", "--", "sh", "-c", orphan, t.TempDir())
	r.free("init")
	asOne(70, "--max-hold", "500ms", "--ttl", "300s", "-k", "100s", "init group", "--", "sh", "-c", "sleep 1000 & sleep 1000")
}
