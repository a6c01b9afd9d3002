//go:build unix

// Package child runs a command in a process group of its own, and gives it the terminal, if there is one.
package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Child is a command that was started. Its methods may be called from many goroutines.
type Child struct {
	pid    int // and process group
	tty    *terminal
	done   chan struct{}
	code   int // read after done
	notify func(string)
}

// Look finds the program of a command, as env(1) does.
func Look(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // a user with . in PATH wants this
	}
	return path, err
}

// Start runs the program at path. It has this process's standard input, output and error,
// and leads a process group of its own. If this process is killed, so is the command, on
// Linux. Messages for the user go to notify.
func Start(path string, argv, env []string, notify func(string)) (*Child, error) {
	c := &Child{done: make(chan struct{}), notify: notify, tty: openTerminal()}
	started := make(chan error)
	go c.run(path, argv, env, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// run starts the command and waits for it on one thread: on Linux the command dies with the
// thread that started it.
func (c *Child) run(path string, argv, env []string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := &exec.Cmd{
		Path: path, Args: argv, Env: env,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: attributes(),
	}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	_ = cmd.Process.Release() // it is waited for by its pid, to learn of stops, too
	c.tty.give(c.pid)
	started <- nil
	if os.Getpid() != 1 {
		c.wait(c.pid)
		return
	}
	// The first process of a container gets the processes whose parents have ended, and has to wait for them. This
	// goroutine does so, because it alone may take the command's own status.
	c.wait(anyChild)
	for {
		if _, err := syscall.Wait4(anyChild, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

const anyChild = -1

// wait returns when the command has ended. It ignores other processes that which includes.
func (c *Child) wait(which int) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(which, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			c.end(codeUnknown) // it cannot happen: only this goroutine waits for the command
			return
		case pid != c.pid:
		case status.Stopped():
			c.stopped(status.StopSignal())
		case status.Exited():
			c.end(status.ExitStatus())
			return
		case status.Signaled():
			c.end(128 + int(status.Signal()))
			return
		}
	}
}

const codeUnknown = 255

func (c *Child) end(code int) {
	c.tty.takeBack(c.pid)
	c.code = code
	close(c.done)
}

// stopped continues the command at once after Ctrl-Z: a stopped command keeps the lock, and other callers would
// wait for the user.
func (c *Child) stopped(by syscall.Signal) {
	switch by {
	case syscall.SIGTSTP:
		c.notify("the command holds a lock and cannot be stopped: it continues")
		c.send(syscall.SIGCONT)
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if c.tty.isWith(c.pid) {
			c.send(syscall.SIGCONT) // it asked before the terminal was its own
			return
		}
		c.notify("the command is stopped: it wants the terminal, which it does not have")
	}
}

// Signal sends a signal to the command's process group.
func (c *Child) Signal(sig syscall.Signal) {
	if sig == syscall.SIGCONT {
		c.tty.give(c.pid) // the shell's fg
	}
	c.send(sig)
}

func (c *Child) send(sig syscall.Signal) {
	_ = syscall.Kill(-c.pid, sig) // an empty group needs no signal
}

// Terminate asks the command's process group to end, also its stopped processes.
func (c *Child) Terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

// Kill ends the command's process group.
func (c *Child) Kill() { c.send(syscall.SIGKILL) }

// Done is closed when the command has ended. Other processes of its group may still run.
func (c *Child) Done() <-chan struct{} { return c.done }

// Code returns the command's exit code as a shell does: 128 + n if signal n ended it. Call it
// after Done.
func (c *Child) Code() int {
	<-c.done
	return c.code
}

// pollGroup is the interval of Gone. A process gets no event when its grandchildren end.
const pollGroup = 5 * time.Millisecond

// Gone is closed when the command's process group is empty.
func (c *Child) Gone() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		<-c.done
		tick := time.NewTicker(pollGroup)
		defer tick.Stop()
		for !errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) {
			<-tick.C
		}
	}()
	return gone
}

// forwarded are the signals that the command gets, too.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// Signals returns the signals to this process that the command gets, too. Signals that were ignored from the start,
// as by nohup, stay ignored. Ctrl-Z has no effect: a stopped process cannot renew.
func Signals() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP)
	}
	return signals
}

// Ends returns whether a signal ends a process that does not handle it.
func Ends(sig os.Signal) bool { return sig != syscall.SIGWINCH && sig != syscall.SIGCONT }
