package child

import "syscall"

// A command that outlives this process would work without the lock when the ttl is over.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
