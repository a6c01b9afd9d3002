package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
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
	p := &process{number: c.started, cmd: exec.Command(exe), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	if i == 0 {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1") // one runs all its goroutines in turn
	}
	p.cmd.Stderr = &p.stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(c.tb, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(c.tb, err)
	require.NoError(c.tb, p.cmd.Start())
	c.processes[i] = p
	go p.listen(out, c.witness)
}

// listen reads what a process reports until it has ended.
func (p *process) listen(out io.Reader, w *witness) {
	defer close(p.gone)
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

// endAll tells all workers that the faults are over, lets them end in good order, and gives the ids of their Guards.
func (c *workers) endAll() (instances []string) {
	last := c.processes
	for _, p := range last {
		_ = p.in.Close()
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

// witness keeps the history of the holds. It listens to the workers alone, and knows nothing of Redis.
type witness struct {
	mu       sync.Mutex
	open     map[string]*record   // by name
	history  map[string][]*record // by key, in the order of entering
	wrong    []string
	calls    int
	outcomes map[outcome]int
}

func newWitness() *witness {
	return &witness{open: make(map[string]*record), history: make(map[string][]*record), outcomes: make(map[outcome]int)}
}

// receive takes in an event of a worker.
func (w *witness) receive(p *process, e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Wrong != "" {
		w.wrong = append(w.wrong, fmt.Sprintf("worker %d: %s", p.number, e.Wrong))
	}
	if e.Lease == nil {
		w.calls++
	} else if r := w.update(p, *e.Lease); r.Outcome != "" {
		delete(w.open, r.name)
		w.outcomes[r.Outcome]++
	}
}

// update makes what a worker knows of a lease known here.
func (w *witness) update(p *process, l lease) *record {
	name := fmt.Sprintf("%d/%d", p.number, l.ID)
	r := w.open[name]
	if r == nil {
		r = &record{name: name, process: p}
		w.open[name] = r
		w.history[l.Key] = append(w.history[l.Key], r)
		w.calls++
	}
	r.lease = l
	p.instance, _, _ = strings.Cut(l.Owner, "-")
	return r
}

// gone closes the leases of a process that is gone.
func (w *witness) gone(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, r := range w.open {
		if r.process == p {
			r.Outcome = killed
			w.outcomes[killed]++
			delete(w.open, name)
		}
	}
}
