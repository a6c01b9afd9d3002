package limits

import (
	"cmp"
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
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
	what    what
	queue   bool
	place   uint8 // that it brings
	inDoubt bool
	fence   uint8 // of its hold
	floor   uint8 // what its fence must be above

	unsubscribed bool
}

// known is what Redis knows of a claim. Who is not in it is not told apart from others, so owners
// are numbered by what they do.
type known struct {
	mode                mode
	holds, lapsed       bool
	noted, place        uint8
	tombstone, released bool
	marked              bool // its place says that it has no subscription
}

// call is a command on what it finds.
type call struct {
	now, last, fence uint8
	claims           [owners]known
	command
}

// watch collects the calls of a search, each kind once.
type watch struct {
	raw   map[rawCall]struct{}
	calls map[call]struct{}
}

func newWatch() *watch {
	return &watch{raw: make(map[rawCall]struct{}), calls: make(map[call]struct{})}
}

// rawCall is a call as the search made it.
type rawCall struct {
	call
	of owner
}

func (w *watch) note(s *state, o owner, c command) {
	if w == nil {
		return
	}
	raw := rawCall{call{now: s.now, last: s.last, fence: s.fence, command: c}, o}
	for i := range s.claims {
		c := &s.claims[i]
		k := known{c.mode, c.holds, c.lapsed, c.noted, c.place, c.tombstone, c.released, c.marked}
		if !c.queued {
			k.place, k.marked = 0, false
		}
		if owner(i) != o && !k.holds && k.place == 0 && !k.tombstone && !k.released {
			k = known{}
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
	kind := func(k known) uint64 {
		return explore.Pack(k.place, k.noted, uint8(k.mode), uint8(explore.Bit(k.marked)<<4|explore.Bit(k.holds)<<3|explore.Bit(k.lapsed)<<2|explore.Bit(k.tombstone)<<1|explore.Bit(k.released))) //nolint:gosec // bits
	}
	slices.SortFunc(others, func(a, b known) int { return cmp.Compare(kind(b), kind(a)) })
	c.claims = [owners]known(append([]known{self}, others...))

	var fences set
	fences.add(c.now, c.last, c.fence, c.command.fence)
	places := uint64(1) << c.place
	for _, k := range c.claims {
		fences.add(k.noted)
		places |= 1 << k.place
	}
	for _, v := range []*uint8{&c.now, &c.last, &c.fence, &c.command.fence} {
		*v = fences.rank(*v) * gap
	}
	c.place = explore.Rank(places, c.place)
	for i := range c.claims {
		k := &c.claims[i]
		k.noted, k.place = fences.rank(k.noted)*gap, explore.Rank(places, k.place)
	}
	return c
}

// outcome is what the model says of a call.
func (r *rules) outcome(c call, cruft, ghosts bool) (k script, renewed bool) {
	s := &state{now: c.now, last: c.last, fence: c.fence, cruft: cruft, ghosts: ghosts}
	for i, is := range c.claims {
		s.claims[i] = claim{
			mode: is.mode, holds: is.holds, lapsed: is.lapsed, noted: is.noted,
			queued: is.place > 0, place: is.place, marked: is.marked, tombstone: is.tombstone, released: is.released,
		}
	}
	self := &s.claims[0]
	self.fence, self.inDoubt, self.above, self.mute = c.command.fence, c.inDoubt, c.floor, c.unsubscribed
	switch c.what {
	case asks:
		return r.acquire(s, 0, c.queue, c.place), false
	case gives:
		return r.release(s, 0), false
	}
	renewed = r.renew(s, 0)
	return script{rules: r, state: s}, renewed
}
