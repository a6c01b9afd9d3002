package chaos_test

import (
	"fmt"
	"sync"
)

// witness keeps the history of the holds. It listens to the workers alone, and knows nothing of Redis.
type witness struct {
	mu       sync.Mutex
	open     map[string]*record   // by name
	history  map[string][]*record // by key, in the order of entering
	wrong    []string
	calls    int
	outcomes map[outcome]int
}

// record is a lease in the history.
type record struct {
	lease
	name    string // unique among those of all processes
	process *process

	// What the judge found out.
	asked int64 // the instant before which Redis cannot have granted it
	stray bool  // granted beside the order of the others: see grantedTwice and setBack
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
	switch e.Kind {
	case working:
		w.update(p, *e.Lease)
	case left:
		delete(w.open, w.update(p, *e.Lease).name)
		w.outcomes[e.Lease.Outcome]++
	case missed:
		w.calls++
	case finished:
		p.instance = e.Instance
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
