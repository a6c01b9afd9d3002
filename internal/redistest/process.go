package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// stopTimeout is how long a server may take to leave politely.
const stopTimeout = 2 * time.Second

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	log  string        // path of what it printed
	done chan struct{} // closed when the process is gone and reaped
}

func startProcess(binary, dir string, args []string) (*process, error) {
	out, err := os.Create(filepath.Join(dir, "redis.log"))
	if err != nil {
		return nil, err
	}
	// The child has its own descriptor once it runs.
	defer func() { _ = out.Close() }()

	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	DieWithParent(cmd)

	p := &process{cmd: cmd, log: out.Name(), done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return p, nil
}

// run starts the process and waits for it on one and the same thread: Linux
// sends the parent-death signal when the starting thread ends, and the runtime
// ends threads whose goroutine returned while locked to them.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)

	err := p.cmd.Start()
	started <- err
	if err == nil {
		// How it ended does not matter: it is meant to be killed.
		_ = p.cmd.Wait()
	}
}

// stop ends the process, politely at first. A paused one is woken, because it
// would not see the request.
func (p *process) stop() {
	_ = Resume(p.cmd.Process)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// output is what the server printed, for error messages.
func (p *process) output() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
