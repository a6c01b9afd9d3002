package records

import (
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// what a command or a fault is.
type what uint8

const (
	asks what = iota
	gives
	forgets // the last command
	dropsLock
	dropsRecord
	flushes
	leaves
)

// event is something that Redis sees, after others.
type event struct {
	what   what
	of     owner
	claim  claim // as it was when it sent the command
	seen   recordID
	before *event
}

// way is what leads to a call, and the call.
func (e *event) way() (all []*event) {
	for ; e != nil; e = e.before {
		all = append(all, e)
	}
	slices.Reverse(all)
	return all
}

// watch collects the calls of a search, each kind once, with the shortest way to it.
type watch struct {
	calls map[uint64]bool
	ways  [][]*event
}

// note is called before an event.
func (r *rules) note(s *state, e event) {
	s.record.touched = false
	if r.watch == nil {
		return
	}
	e.before = s.history
	s.history = &e
	if call := s.call(&e); e.what <= forgets && !r.watch.calls[call] {
		r.watch.calls[call] = true
		r.watch.ways = append(r.watch.ways, e.way())
	}
}

// call is a fingerprint of a command and of what its script may see.
func (s *state) call(e *event) uint64 {
	sees := state{record: s.record, holder: s.holder, fence: s.fence, seen: e.seen}
	for i := range s.claims {
		is, c := &s.claims[i], &sees.claims[i]
		if owner(i) == e.of {
			*c = claim{phase: running, atMostOnce: is.atMostOnce, waits: is.waits, input: is.input}
		}
		if owner(i) == e.of && e.what == gives {
			c.outcome, c.inDoubt, c.fence = is.outcome, is.inDoubt, is.fence
		}
		c.place, c.tombstone = is.place, is.tombstone
	}
	return modeltest.Mix(sees.print() + uint64(e.what))
}
