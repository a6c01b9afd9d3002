package chaos_test

import (
	"os"
	"os/exec"
	"syscall"
)

const canStop = true

// dieWithParent has the kernel kill the process when the thread that started it ends:
// a stopped process would not notice otherwise.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func wakeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// dumpProcess ends a Go program with the stacks of all goroutines.
func dumpProcess(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
