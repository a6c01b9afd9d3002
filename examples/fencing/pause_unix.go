//go:build unix

package main

import "syscall"

// pause stops the process where it is, as a full machine or a moving one would.
func (p *process) pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
