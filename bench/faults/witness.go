package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// witness is what the locks protect: workers write to it, through pipes that no fault
// harms. It stamps each event with its own clock, and knows nothing of Redis.
type witness struct {
	mu      sync.Mutex // protects what follows
	calls   map[callName]*call
	last    map[string]*call  // the last call of each library that began its work
	fences  map[string]uint64 // the highest of each library
	changed chan struct{}     // closed, and made anew, at each event
}

// callName names a call among those of all workers.
type callName struct {
	library string
	number  int
}

// call is what came of one call.
type call struct {
	asked, begun, noticed, ended, unlocked, refused time.Time // zero: it did not come to that

	ready     int // workers that are set up, in the call that is none
	fence     uint64
	late      int    // writes after a later call began to work
	together  int    // of them, those before that call's work ended
	stale     int    // of them, those whose fence is lower than one before
	refusal   string // the first error of lock
	unlockErr string
	overtaken int // calls that asked later and began sooner
}

func newWitness() *witness {
	return &witness{
		calls: make(map[callName]*call), last: make(map[string]*call),
		fences: make(map[string]uint64), changed: make(chan struct{}),
	}
}

// hear takes in what a worker says.
func (w *witness) hear(library string, e event) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		close(w.changed)
		w.changed = make(chan struct{})
	}()
	name := callName{library, e.Call}
	c := w.calls[name]
	if c == nil {
		c = &call{}
		w.calls[name] = c
	}
	switch e.Kind {
	case ready:
		c.ready++
	case asked:
		c.asked = now
	case refused:
		if c.refused.IsZero() {
			c.refused, c.refusal = now, e.Err
		}
	case begun:
		c.begun, c.fence = now, e.Fence
		w.last[library] = c
		w.fences[library] = max(w.fences[library], e.Fence)
		for n, other := range w.calls {
			if n.library == library && other.begun.IsZero() && !other.asked.IsZero() && other.asked.Before(c.asked) {
				other.overtaken++
			}
		}
	case wrote:
		if last := w.last[library]; last != c {
			c.late++
			if last.ended.IsZero() {
				c.together++
			}
			if c.fence < w.fences[library] {
				c.stale++
			}
		}
	case noticed:
		c.noticed = now
	case ended:
		c.ended = now
	case unlocked:
		c.unlocked, c.unlockErr = now, e.Err
	}
}

// of returns the state of a call. It does not change after the worker's last word.
func (w *witness) of(library string, number int) call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.calls[callName{library, number}]; c != nil {
		return *c
	}
	return call{}
}

// patience is how long anything may take that has to happen.
const patience = 30 * time.Second

var errNever = errors.New("it did not happen")

// await waits until something is true of a call, at most until the limit.
func (w *witness) await(library string, number int, limit time.Duration, holds func(call) bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if holds(w.of(library, number)) {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%s, call %d: %w within %v", library, number, errNever, limit)
		}
	}
}
