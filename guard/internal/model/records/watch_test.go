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
	forgets
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
	calls map[call]struct{}
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
	if c := s.callOf(&e).canonical(); e.what <= forgets {
		if _, there := r.watch.calls[c]; !there {
			r.watch.calls[c] = struct{}{}
			r.watch.ways = append(r.watch.ways, e.way())
		}
	}
}

// call is a command on what it finds.
type call struct {
	what    what
	of      owner
	outcome outcome
	inDoubt bool
	fence   uint8
	record  record
	seen    recordID
	holder  owner
	claims  [owners + 1]known
}

// known is what a script may see of a claim.
type known struct {
	atMostOnce, waits, tombstone bool
	input                        uint8
	place                        uint8 // 1: the front; 2: further back
}

func (s *state) callOf(e *event) call {
	c := call{
		what: e.what, of: e.of, outcome: e.claim.outcome, inDoubt: e.claim.inDoubt && e.what == gives, fence: s.kindOf(e.claim.fence),
		record: s.record, holder: s.holder,
	}
	c.seen = recordID{e.seen.state, s.kindOf(e.seen.fence)}
	c.record.fence, c.record.before = s.kindOf(s.record.fence), s.kindOf(s.record.before)
	first := s.front()
	for i := range c.claims {
		is := &s.claims[i]
		if owner(i) == e.of {
			c.claims[i] = known{atMostOnce: is.atMostOnce, waits: is.waits, input: is.input}
		}
		c.claims[i].tombstone = is.tombstone
		if c.claims[i].place = min(is.place, 1); is.place > 0 && owner(i) != first {
			c.claims[i].place = 2
		}
	}
	return c
}

// canonical numbers the owners by what they are.
func (c call) canonical() call {
	is := func(o owner) int {
		k := c.claims[o]
		return int(modeltest.Bit(o == c.of)<<5|modeltest.Bit(o == c.holder)<<4|modeltest.Bit(o == c.record.owner)<<3) +
			int(k.place)*64 + int(modeltest.Bit(k.tombstone))
	}
	order := []owner{0, 1, 2}
	slices.SortStableFunc(order, func(a, b owner) int { return is(b) - is(a) })
	to := func(o owner) owner { return owner(slices.Index(order, o)) }
	n := c
	for i, o := range order {
		n.claims[i] = c.claims[o]
	}
	n.of, n.holder, n.record.owner = to(c.of), to(c.holder), to(c.record.owner)
	return n
}

// kindOf distinguishes fences: none, the lock's, that of the record, another one.
func (s *state) kindOf(fence uint8) uint8 {
	switch fence {
	case 0:
		return 0
	case s.fence:
		return 1
	case s.record.fence:
		return 2
	}
	return 3
}
