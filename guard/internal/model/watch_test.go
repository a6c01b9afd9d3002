package model

import (
	"cmp"
	"slices"

	"github.com/redlatch/redlatch/guard/internal/model/explore"
)

// view is what Redis knows of the lock: what a script finds. Values are ranks, as in state.
// Who is not in it is not told apart from others, so owners are numbered by what they do:
// 0 sends the command.
type view struct {
	now, last, fence uint8
	ahead, granted   bool
	resting, revoked bool
	holder, released owner
	places           [owners]uint8 // 0 = not queued
	mute             [owners]bool  // its place says that it has no subscription
	tombstone        [owners]bool
}

// command is what a script is called with, by owner 0.
type command struct {
	release bool

	// acquire
	queue bool
	place uint8 // that it brings
	floor uint8 // what its fence must be above

	unsubscribed bool

	// release
	above   uint8 // the fence of the lease, hand-overs included
	inDoubt bool
	keep    bool // it says that the lock is to stay taken
}

// call is a command on what it finds.
type call struct {
	view
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

func (w *watch) acquires(r *rules, s *state, o owner, queue bool, place uint8) {
	if w != nil {
		w.note(rawCall{call{s.view(), command{queue: queue, place: place, floor: r.floor(&s.claims[o]), unsubscribed: queue && s.of(o).mute}}, o})
	}
}

func (w *watch) releases(r *rules, s *state, o owner) {
	if w != nil {
		c := &s.claims[o]
		w.note(rawCall{call{s.view(), command{release: true, above: c.fence, inDoubt: c.inDoubt && !r.neverTombstones, keep: c.keeps}}, o})
	}
}

func (s *state) view() view {
	v := view{
		now: s.now, last: s.last, fence: s.fence, ahead: s.ahead, resting: s.resting, revoked: s.revoked,
		holder: nobody, released: nobody,
	}
	for i := range s.claims {
		c := &s.claims[i]
		v.places[i], v.mute[i], v.tombstone[i] = c.place, c.mute, c.tombstone
		if !c.queued {
			v.places[i], v.mute[i] = 0, false
		}
		if c.holds {
			v.holder, v.granted = owner(i), c.granted
		}
		if c.released {
			v.released = owner(i)
		}
	}
	return v
}

func (w *watch) note(raw rawCall) {
	if _, known := w.raw[raw]; known {
		return
	}
	w.raw[raw] = struct{}{}
	w.calls[raw.canonical()] = struct{}{}
}

// canonical numbers the owners and ranks the values.
func (raw rawCall) canonical() call {
	order := []owner{raw.of}
	v := &raw.view
	for o := range owner(owners) {
		if !slices.Contains(order, o) && (v.places[o] > 0 || v.tombstone[o] || v.holder == o || v.released == o) {
			order = append(order, o)
		}
	}
	kind := func(o owner) int {
		return int(v.places[o])<<4 | int(explore.Bit(v.mute[o])<<3|explore.Bit(v.tombstone[o])<<2|explore.Bit(v.holder == o)<<1|explore.Bit(v.released == o))
	}
	slices.SortFunc(order[1:], func(a, b owner) int { return cmp.Compare(kind(a), kind(b)) })

	c := raw.call
	c.places, c.mute, c.tombstone, c.holder, c.released = [owners]uint8{}, [owners]bool{}, [owners]bool{}, nobody, nobody
	fences := uint64(1)<<v.now | 1<<v.last | 1<<v.fence | 1<<c.floor | 1<<c.above
	places := uint64(1) << raw.place
	for _, place := range v.places {
		places |= 1 << place
	}
	c.now, c.last, c.fence = explore.Rank(fences, v.now)*gap, explore.Rank(fences, v.last)*gap, explore.Rank(fences, v.fence)*gap
	c.floor, c.above = explore.Rank(fences, c.floor)*gap, explore.Rank(fences, c.above)*gap
	c.place = explore.Rank(places, raw.place)
	for to, from := range order {
		c.places[to], c.mute[to], c.tombstone[to] = explore.Rank(places, v.places[from]), v.mute[from], v.tombstone[from]
		if v.holder == from {
			c.holder = owner(to)
		}
		if v.released == from {
			c.released = owner(to)
		}
	}
	return c
}
