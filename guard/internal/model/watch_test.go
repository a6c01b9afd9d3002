package model

import (
	"cmp"
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/modeltest"
)

// what a command is.
type what uint8

const (
	asks   what = iota // acquire
	gives              // release
	renews             // renew
)

// command is what a script is called with, by owner 0.
type command struct {
	what what

	// acquire
	queue        bool
	place        uint8 // that it brings
	floor        uint8 // what its fence must be above
	unsubscribed bool

	fence uint8 // renew: of its hold; release: hand-overs included

	// release
	inDoubt bool
	keep    bool // it says that the lock is to stay taken
	careful bool // the clock may be below its fence
}

// call is a command on what it finds. An owner that Redis does not know is the same as any other, so owners
// are numbered by what they do.
type call struct {
	now, ahead, fence uint8
	resting           bool
	claims            [owners]entry
	command
}

// rawCall is a call as the search made it.
type rawCall struct {
	call
	of owner
}

// watch collects the calls of a search, each kind once.
type watch struct {
	raw   map[rawCall]struct{}
	calls map[call]struct{}
}

func newWatch() *watch {
	return &watch{raw: make(map[rawCall]struct{}), calls: make(map[call]struct{})}
}

func (w *watch) note(s *state, o owner, c command) {
	if w == nil {
		return
	}
	raw := rawCall{call{now: s.now, ahead: s.ahead, fence: s.fence, resting: s.resting, command: c}, o}
	for i := range s.claims {
		c := &s.claims[i]
		k := c.entry
		if !c.queued {
			k.place, k.marked = 0, false
		}
		if raw.what == renews { // it looks at holders only
			k.place, k.marked, k.tombstone = 0, false, false
		}
		if owner(i) != o && !k.holds && k.place == 0 && !k.tombstone {
			k = entry{}
		}
		raw.claims[i] = k
	}
	if _, known := w.raw[raw]; known {
		return
	}
	w.raw[raw] = struct{}{}
	w.calls[raw.canonical()] = struct{}{}
}

// canonical numbers the owners and ranks the values.
func (raw rawCall) canonical() call {
	c := raw.call
	self := c.claims[raw.of]
	others := slices.Delete(slices.Clone(c.claims[:]), int(raw.of), int(raw.of)+1)
	kind := func(k entry) uint64 {
		flags := uint8(bits(k.marked, k.holds, k.lapsed, k.tombstone, k.outran, k.revoked))
		return modeltest.Pack(k.place, k.noted, uint8(k.mode), flags)
	}
	slices.SortFunc(others, func(a, b entry) int { return cmp.Compare(kind(b), kind(a)) })
	c.claims = [owners]entry(append([]entry{self}, others...))

	fences := []*uint8{&c.now, &c.ahead, &c.fence, &c.command.fence, &c.floor}
	places := []*uint8{&c.place}
	for i := range c.claims {
		fences, places = append(fences, &c.claims[i].noted), append(places, &c.claims[i].place)
	}
	modeltest.Rank(gap, fences...)
	modeltest.Rank(1, places...)
	return c
}

// near is a call next to a call that was found, for rules that are a second line of defence, or matter within larger bounds
// only.
func (c call) near() call {
	self := &c.claims[0]
	switch {
	case c.what == renews && self.holds:
		c.command.fence = self.noted + 1
	case c.what == gives && self.holds && self.mode == exclusive:
		c.command.fence, c.careful = max(c.now, c.ahead, self.noted)+gap, true
	case c.what == gives && !self.holds && self.mode == exclusive && !c.keep:
		c.keep = true
	case c.what != asks:
	case self.holds:
		c.floor = self.noted
	case self.place > 0:
		c.place, c.floor = self.place+2, max(c.now, c.ahead, c.fence)+gap
	default:
		self.tombstone = true
	}
	return c
}

// outcome is what the model says of a call, where the queue has other things in it, or a dead claim in front.
func (r *rules) outcome(c call, cruft, ghosts bool) script {
	s := &state{now: c.now, ahead: c.ahead, fence: c.fence, resting: c.resting, cruft: cruft, ghosts: ghosts}
	for i, is := range c.claims {
		s.claims[i] = claim{entry: is, queued: is.place > 0}
	}
	self := &s.claims[0]
	s.instances[0].mute = c.unsubscribed
	switch c.what {
	case asks:
		self.phase, self.fence = waiting, c.floor
		return r.acquire(s, 0, c.queue, c.place, c.floor)
	case gives:
		self.phase, self.fence, self.inDoubt, self.keeps = releasing, c.command.fence, c.inDoubt, c.keep
		s.instances[0].high = c.careful
		return r.release(s, 0)
	}
	self.phase, self.grant = holding, c.command.fence
	return script{rules: r, state: s, renewed: r.renew(s, 0)}
}
