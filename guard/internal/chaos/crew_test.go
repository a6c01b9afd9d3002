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
	"sync"
	"testing"
	"time"
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
	number int
	slot   int
	cmd    *exec.Cmd
	stderr bytes.Buffer  // read after gone
	gone   chan struct{} // closed when it has ended and all that it told is known
	err    error         // how it ended

	mu sync.Mutex // protects in
	in io.Writer

	stops    []span // when it was stopped
	doomed   bool   // it is meant to be killed
	instance string // set when it ended in good order; read after gone
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
	if err != nil {
		c.tb.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		c.tb.Fatal(err)
	}
	p := &process{number: c.started, slot: i, cmd: exec.Command(exe), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	if i == 0 {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1") // one runs all its goroutines in turn
	}
	p.cmd.Stderr = &p.stderr
	dieWithParent(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		c.tb.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		c.tb.Fatal(err)
	}
	begun := make(chan error)
	go p.run(out, c.witness, begun)
	if err := <-begun; err != nil {
		c.tb.Fatalf("start a worker: %v", err)
	}
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
			w.accuse("worker %d said %q", p.number, lines.Text())
			continue
		}
		if answer := w.hear(p, e); e.Number > 0 {
			p.tell(answer)
		}
	}
	p.err = p.cmd.Wait()
}

// tell sends a command. If the process is dead, that shows elsewhere.
func (p *process) tell(c command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = json.NewEncoder(p.in).Encode(c)
}

// stop halts a worker until the returned function wakes it.
func (c *crew) stop(p *process) (wake func()) {
	from := stamp()
	if err := stopProcess(p.cmd.Process); err != nil {
		c.tb.Fatalf("stop a worker: %v", err)
	}
	return func() {
		if err := wakeProcess(p.cmd.Process); err != nil {
			c.tb.Fatalf("wake a worker: %v", err)
		}
		p.stops = append(p.stops, span{from, stamp()})
	}
}

// kill ends a worker with SIGKILL.
func (c *crew) kill(i int) {
	p := c.members[i]
	p.doomed = true
	_ = p.cmd.Process.Kill()
	<-p.gone
	c.noteGone(i)
}

// await waits for a worker that was told to end.
func (c *crew) await(i int) {
	p := c.members[i]
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		_ = dumpProcess(p.cmd.Process)
		<-p.gone
		c.witness.accuse("worker %d did not end within %v", p.number, endTimeout)
	}
	c.noteGone(i)
}

// noteGone notes what is left of a worker that is gone.
func (c *crew) noteGone(i int) {
	p := c.members[i]
	c.members[i] = nil
	c.witness.gone(p)
	if p.err != nil && !p.doomed {
		c.witness.accuse("worker %d: %v\n%s", p.number, p.err, tail(p.stderr.String()))
	}
}

// endAll lets all workers end in good order, and gives the ids of their Guards.
func (c *crew) endAll() (instances []string) {
	last := c.members
	for _, p := range last {
		p.tell(command{Do: finish})
	}
	for i, p := range last {
		c.await(i)
		instances = append(instances, p.instance)
	}
	return instances
}

// fire kills whoever is left.
func (c *crew) fire() {
	for i, p := range c.members {
		if p != nil {
			c.kill(i)
		}
	}
}

const tailLength = 8000

func tail(s string) string {
	if len(s) > tailLength {
		s = fmt.Sprintf("(%d bytes more)…%s", len(s)-tailLength, s[len(s)-tailLength:])
	}
	return s
}
