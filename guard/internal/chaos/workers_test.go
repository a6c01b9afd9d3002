package chaos_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/internal/redistest"
)

const (
	workerCount = 4
	callers     = 8                // in each process
	endTimeout  = 40 * time.Second // for all callers to take every lock once more
)

// workers are the worker processes. Its methods are the driver's, one at a time.
type workers struct {
	tb        testing.TB
	witness   *witness
	orders    [workerCount]order
	processes [workerCount]*process // nil while one is dead
	started   int
}

// process is one worker process.
type process struct {
	number   int
	slot     int
	cmd      *exec.Cmd
	in       io.Writer
	stderr   bytes.Buffer  // read after gone
	gone     chan struct{} // closed when it has ended and all its reports are known
	err      error         // how it ended
	stops    []span        // when it was stopped
	doomed   bool          // it is meant to be killed
	instance string        // set when it ended in good order; read after gone
}

// span is a time between two instants.
type span struct{ from, to int64 }

func (s span) meets(from, to int64) bool { return s.from <= to && from <= s.to }

// start starts a worker.
func (c *workers) start(i int) {
	c.tb.Helper()
	c.started++
	o := c.orders[i]
	o.Seed += uint64(c.started) << 8
	text, err := json.Marshal(o)
	require.NoError(c.tb, err)
	exe, err := os.Executable()
	require.NoError(c.tb, err)
	p := &process{number: c.started, slot: i, cmd: exec.Command(exe), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	if i == 0 {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1") // one runs all its goroutines in turn
	}
	p.cmd.Stderr = &p.stderr
	redistest.DieWithParent(p.cmd)
	p.in, err = p.cmd.StdinPipe()
	require.NoError(c.tb, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(c.tb, err)
	begun := make(chan error)
	go p.run(out, c.witness, begun)
	require.NoError(c.tb, <-begun, "start a worker")
	c.processes[i] = p
}

// run is the life of a process, on one thread: see redistest.DieWithParent.
func (p *process) run(out io.Reader, w *witness, begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.gone)
	p.err = p.cmd.Start()
	begun <- p.err
	if p.err != nil {
		return
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e.Wrong = fmt.Sprintf("it said %q", lines.Text())
		}
		w.receive(p, e)
	}
	p.err = p.cmd.Wait()
}

// send sends a command. If the process is dead, that shows elsewhere.
func (p *process) send(command string) { _, _ = fmt.Fprintln(p.in, command) }

// stop halts a worker until the returned function wakes it.
func (c *workers) stop(p *process) (wake func()) {
	from := stamp()
	require.NoError(c.tb, redistest.Stop(p.cmd.Process))
	return func() {
		require.NoError(c.tb, redistest.Resume(p.cmd.Process))
		p.stops = append(p.stops, span{from, stamp()})
	}
}

// kill ends a worker with SIGKILL.
func (c *workers) kill(i int) {
	p := c.processes[i]
	p.doomed = true
	_ = p.cmd.Process.Kill()
	c.await(i)
}

// await waits for a worker that was asked to end, or killed, and closes its leases.
func (c *workers) await(i int) {
	p := c.processes[i]
	c.processes[i] = nil
	dump := time.AfterFunc(endTimeout, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }) // it then prints all stacks, and ends with an error
	defer dump.Stop()
	<-p.gone
	c.witness.gone(p)
	if p.err != nil && !p.doomed {
		text := p.stderr.Bytes()
		c.witness.receive(p, event{Wrong: fmt.Sprintf("it ended with %v\n%s", p.err, text[max(0, len(text)-8000):])})
	}
}

// endAll lets all workers end in good order, and gives the ids of their Guards.
func (c *workers) endAll() (instances []string) {
	last := c.processes
	for _, p := range last {
		p.send(finish)
	}
	for i, p := range last {
		c.await(i)
		instances = append(instances, p.instance)
	}
	return instances
}

// killAll kills those that are left.
func (c *workers) killAll() {
	for i, p := range c.processes {
		if p != nil {
			c.kill(i)
		}
	}
}
