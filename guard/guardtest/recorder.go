package guardtest

import (
	"context"
	"sync"

	"github.com/redlatch/redlatch/guard"
)

// Observation is one call of an Observer.
type Observation struct {
	Method string // WaitStart, WaitEnd, HoldStart, HoldEnd or Event
	Lock   guard.Lock
	Wait   guard.WaitResult // of WaitEnd
	Hold   guard.HoldResult // of HoldEnd; of HoldStart, the embedded Hold
	Event  guard.Event      // of Event
}

// Recorder is a guard.Observer that keeps what happened, in order. The zero value is
// ready for use, by many goroutines.
type Recorder struct {
	mu   sync.Mutex
	seen []Observation
}

var _ guard.Observer = (*Recorder)(nil)

// Observations returns what was seen so far, or with names only the calls of these
// methods.
func (r *Recorder) Observations(methods ...string) []Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Observation
	for _, o := range r.seen {
		wanted := len(methods) == 0
		for _, m := range methods {
			wanted = wanted || m == o.Method
		}
		if wanted {
			out = append(out, o)
		}
	}
	return out
}

// Events returns the events of a kind that were seen so far.
func (r *Recorder) Events(kind guard.EventKind) []guard.Event {
	var out []guard.Event
	for _, o := range r.Observations("Event") {
		if o.Event.Kind == kind {
			out = append(out, o.Event)
		}
	}
	return out
}

func (r *Recorder) add(o Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, o)
}

// WaitStart implements guard.Observer.
func (r *Recorder) WaitStart(ctx context.Context, l guard.Lock) context.Context {
	r.add(Observation{Method: "WaitStart", Lock: l})
	return ctx
}

// WaitEnd implements guard.Observer.
func (r *Recorder) WaitEnd(_ context.Context, l guard.Lock, w guard.WaitResult) {
	r.add(Observation{Method: "WaitEnd", Lock: l, Wait: w})
}

// HoldStart implements guard.Observer.
func (r *Recorder) HoldStart(ctx context.Context, l guard.Lock, h guard.Hold) context.Context {
	r.add(Observation{Method: "HoldStart", Lock: l, Hold: guard.HoldResult{Hold: h}})
	return ctx
}

// HoldEnd implements guard.Observer.
func (r *Recorder) HoldEnd(_ context.Context, l guard.Lock, h guard.HoldResult) {
	r.add(Observation{Method: "HoldEnd", Lock: l, Hold: h})
}

// Event implements guard.Observer.
func (r *Recorder) Event(_ context.Context, l guard.Lock, e guard.Event) {
	r.add(Observation{Method: "Event", Lock: l, Event: e})
}
