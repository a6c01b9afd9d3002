package child

import "syscall"

// A command that outlives this process would work without the lock after the ttl.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
