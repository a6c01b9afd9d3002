//go:build unix

package child

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal on standard input, if this process is in its foreground; nil if not.
type terminal struct {
	fd int

	mu    sync.Mutex
	taken bool // back from the command, finally
}

// openTerminal returns nil in a pipeline, too: the other commands of the pipeline are in this process's group, and
// would lose the terminal with it.
func openTerminal() *terminal {
	fd := int(os.Stdin.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || group != unix.Getpgrp() {
		return nil
	}
	out, err := os.Stdout.Stat()
	if err != nil || out.Mode()&os.ModeNamedPipe != 0 {
		return nil
	}
	return &terminal{fd: fd}
}

// give gives the terminal, with Ctrl-C, to a process group, if this process is in the foreground.
func (t *terminal) give(group int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && front == unix.Getpgrp() && !t.taken {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // without it, the command cannot read
	}
}

func (t *terminal) isWith(group int) bool {
	if t == nil {
		return false
	}
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && front == group
}

// takeBack undoes give.
func (t *terminal) takeBack(group int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = true
	if !t.isWith(group) {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // else the kernel would stop this process
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
}
