package main

import "syscall"

// dieWithParent has the kernel kill a child whose parent died without saying so.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
