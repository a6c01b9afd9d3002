//go:build unix && !linux

package redistest

import (
	"os"
	"os/exec"
	"syscall"
)

// DieWithParent does nothing here.
func DieWithParent(*exec.Cmd) {}

// Stop suspends a process, soon.
func Stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume lets a process that was stopped go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
