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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	crewSize   = 4
	callers    = 8                // in each process
	endTimeout = 40 * time.Second // for all callers to take every lock once more
)

// crew is the worker processes. Its methods are the driver's, one at a time.
type crew struct {
	tb      testing.TB
	witness *witness
	orders  [crewSize]order
	members [crewSize]*process // nil while one is dead
	started int
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

// hire starts a worker.
func (c *crew) hire(i int) {
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
	dieWithParent(p.cmd)
	p.in, err = p.cmd.StdinPipe()
	require.NoError(c.tb, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(c.tb, err)
	begun := make(chan error)
	go p.run(out, c.witness, begun)
	require.NoError(c.tb, <-begun, "start a worker")
	c.members[i] = p
}

// run is the life of a process, on one thread: see dieWithParent.
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
		w.hear(p, e)
	}
	p.err = p.cmd.Wait()
}

// tell orders a deed. If the process is dead, that shows elsewhere.
func (p *process) tell(deed string) { _, _ = fmt.Fprintln(p.in, deed) }

// stop halts a worker until the returned function wakes it.
func (c *crew) stop(p *process) (wake func()) {
	from := stamp()
	require.NoError(c.tb, stopProcess(p.cmd.Process))
	return func() {
		require.NoError(c.tb, wakeProcess(p.cmd.Process))
		p.stops = append(p.stops, span{from, stamp()})
	}
}

// kill ends a worker with SIGKILL.
func (c *crew) kill(i int) {
	p := c.members[i]
	p.doomed = true
	_ = p.cmd.Process.Kill()
	c.await(i)
}

// await waits for a worker that was asked to end, or killed, and notes what is left of it.
func (c *crew) await(i int) {
	p := c.members[i]
	c.members[i] = nil
	dump := time.AfterFunc(endTimeout, func() { _ = dumpProcess(p.cmd.Process) }) // it then ends with an error
	defer dump.Stop()
	<-p.gone
	c.witness.gone(p)
	if p.err != nil && !p.doomed {
		text := p.stderr.Bytes()
		c.witness.hear(p, event{Wrong: fmt.Sprintf("it ended with %v\n%s", p.err, text[max(0, len(text)-8000):])})
	}
}

// endAll lets all workers end in good order, and gives the ids of their Guards.
func (c *crew) endAll() (instances []string) {
	last := c.members
	for _, p := range last {
		p.tell(finish)
	}
	for i, p := range last {
		c.await(i)
		instances = append(instances, p.instance)
	}
	return instances
}

// fire kills those that are left.
func (c *crew) fire() {
	for i, p := range c.members {
		if p != nil {
			c.kill(i)
		}
	}
}
