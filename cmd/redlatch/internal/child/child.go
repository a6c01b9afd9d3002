//go:build unix

// Package child runs a command in a process group of its own, and gives it the terminal if
// there is one to give.
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

// run starts the command and waits for it on one thread, for on Linux the command dies with
// the thread that started it.
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
	// The first process of a container gets those whose parents have ended. They are waited
	// for here, for as long as there are any: nobody else may take the command's own status.
	c.wait(anyChild)
	for {
		if _, err := syscall.Wait4(anyChild, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

const anyChild = -1

// wait returns when the command has ended. Of others that which includes, it keeps nothing.
func (c *Child) wait(which int) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(which, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			c.end(codeUnknown) // nobody else waits for it: it cannot be
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

// stopped goes on at once after Ctrl-Z: a command that is put aside keeps the lock, and
// other callers would wait for the user.
func (c *Child) stopped(by syscall.Signal) {
	switch by {
	case syscall.SIGTSTP:
		c.notify("the command holds a lock and cannot be put aside: it goes on")
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
	_ = syscall.Kill(-c.pid, sig) // a group that is gone needs no signal
}

// Terminate asks the command's process group to end, stopped processes as well.
func (c *Child) Terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

// Kill ends the command's process group.
func (c *Child) Kill() { c.send(syscall.SIGKILL) }

// Done is closed when the command has ended. Others of its process group may go on.
func (c *Child) Done() <-chan struct{} { return c.done }

// Code is the command's exit code as a shell gives it: 128 + n if signal n ended it. Call it
// after Done.
func (c *Child) Code() int {
	<-c.done
	return c.code
}

// pollGroup is how often Gone looks. A process gets no event when its grandchildren end.
const pollGroup = 5 * time.Millisecond

// Gone is closed when nobody of the command's process group is left.
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

// Signals gives the signals that this process is sent and the command is to have. What was
// ignored from the start, as by nohup, stays so. Ctrl-Z has no effect: a process that
// stands still cannot renew.
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

// Ends says whether a process that does not handle a signal ends by it.
func Ends(sig os.Signal) bool { return sig != syscall.SIGWINCH && sig != syscall.SIGCONT }
