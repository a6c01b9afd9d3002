package chaos_test

import (
	"fmt"
	"sync"
	"time"
)

// witness is the resource that the locks guard, and keeps the history of it. It is told
// by the workers alone, and knows nothing of Redis.
type witness struct {
	mu        sync.Mutex
	registers map[string]*register // by key
	open      map[leaseName]*record
	history   map[string][]*record // by key, in the order of entering
	wrong     []string
	tally     tally
}

// register is what is written to under a lock. It accepts no fence below the highest. The judge
// looks for leases of one fence: only it knows when Redis lost data.
type register struct{ fence uint64 }

// leaseName names a lease among those of all processes.
type leaseName struct {
	process int
	id      int64
}

func (n leaseName) String() string { return fmt.Sprintf("%d/%d", n.process, n.id) }

// record is a lease in the history.
type record struct {
	lease
	name    leaseName
	process *process

	// What the judge found out.
	asked int64 // the instant before which Redis cannot have granted it
	stray bool  // granted beside the order of the others: see grantedTwice and setBack
}

// tally is what the witness counts.
type tally struct {
	calls    int
	outcomes map[outcome]int
	misses   map[string]int
	local    int
	nested   int
	observed int // losses that WithLock did not return
	writes   int
	stale    int           // writes that the fence stopped
	inVain   time.Duration // the longest wait that was not rewarded
}

func newWitness() *witness {
	return &witness{
		registers: make(map[string]*register), open: make(map[leaseName]*record), history: make(map[string][]*record),
		tally: tally{outcomes: make(map[outcome]int), misses: make(map[string]int)},
	}
}

// accuse notes what must not be.
func (w *witness) accuse(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accuseLocked(format, args...)
}

func (w *witness) accuseLocked(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// hear takes in what a worker tells, and answers.
func (w *witness) hear(p *process, e event) (answer command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Wrong != "" {
		w.accuseLocked("worker %d: %s", p.number, e.Wrong)
	}
	switch e.Kind {
	case entered, wrote:
		return command{Number: e.Number, Accepted: w.write(p, e)}
	case left:
		r := w.update(p, e)
		delete(w.open, r.name)
		w.tally.outcomes[e.Lease.Outcome]++
	case missed:
		if e.Miss != "" {
			w.tally.calls++
			w.tally.misses[e.Miss]++
			w.tally.inVain = max(w.tally.inVain, e.Waited)
		}
	case ended:
		w.tally.observed++
	case finished:
		p.instance = e.Instance
	}
	return command{}
}

// update makes what a worker knows of a lease known here.
func (w *witness) update(p *process, e event) *record {
	name := leaseName{p.number, e.Lease.ID}
	r := w.open[name]
	if r == nil {
		r = &record{name: name, process: p}
		w.open[name] = r
		w.history[e.Lease.Key] = append(w.history[e.Lease.Key], r)
		w.tally.calls++
		if e.Lease.Local {
			w.tally.local++
		}
	}
	if e.Lease.Nested && !r.Nested {
		w.tally.nested++
	}
	r.lease = *e.Lease
	return r
}

// write is a write under a lease.
func (w *witness) write(p *process, e event) (accepted bool) {
	r := w.update(p, e)
	if r.Limit != 0 {
		return true // its fence refuses nobody
	}
	reg := w.registers[r.Key]
	if reg == nil {
		reg = &register{}
		w.registers[r.Key] = reg
	}
	w.tally.writes++
	if r.Fence < reg.fence {
		w.tally.stale++
		return false
	}
	reg.fence = r.Fence
	return true
}

// gone closes the leases of a process that is gone.
func (w *witness) gone(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, r := range w.open {
		if r.process == p {
			r.Outcome = killed
			w.tally.outcomes[killed]++
			delete(w.open, name)
		}
	}
}
