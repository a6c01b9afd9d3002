package redistest

import (
	"os"
	"syscall"
)

// sysProcAttr has the kernel kill the server when the thread that started it
// ends, so that a test binary killed with -9 leaves no server behind. It needs
// a thread that outlives the server: see process.run.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func pauseProcess(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
