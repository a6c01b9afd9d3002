package limits

import "math"

// script is one that runs: at one time of the server's clock.
type script struct {
	*rules
	*state

	ticked bool
	above  uint8 // what a fence must be above, last apart

	// What the replay looks at.
	told    [owners]owner // who was granted the lock for an ack window
	tells   int
	heads   bool // the two in front were told that they are
	emptied bool // the lock was free in between
	walks   bool // the queue was walked from the front
	joined  bool // the owner was put into it
}

// tick lets time pass, but not so much that a clock that is behind catches up.
func (k *script) tick() {
	if !k.ticked {
		k.now += gap / 2
		k.ticked = true
	}
}

// acquire is what a claim sends to get in.
func (r *rules) acquire(s *state, o owner, queue bool, place uint8) script {
	c := &s.claims[o]
	r.watch.note(s, o, command{what: asks, queue: queue, place: place, unsubscribed: queue && c.mute})
	k := script{rules: r, state: s}
	k.prune()
	_, strictest := k.inside()
	switch {
	case c.holds:
		k.confirm(o)
	case !k.hasQueue() && k.fits(o):
		if !k.isOver(c) {
			k.above = c.above
			k.admit(o)
		}
	case k.isOver(c):
	default:
		if k.above = c.above; queue {
			k.join(o, place)
			c.marked = c.mute
		}
		if strictest == 1 && !k.limitInsideIsIgnored {
			break
		}
		k.serve(o)
		if !queue && k.fits(o) && (k.first() == nobody || k.passesTheQueue) {
			k.checkOvertaken(o)
			k.admit(o)
		}
		k.checkServed()
	}
	return k
}

// confirm makes a new fence for a hold that was granted by somebody who did not know what it must
// be above.
func (k *script) confirm(o owner) {
	c := &k.claims[o]
	if k.above = c.above; c.noted <= c.above && !k.confirmsAnyFence {
		c.noted = k.mint()
	}
	k.above = 0
	c.granted = false
	if _, strictest := k.inside(); strictest == 1 || k.confirmServesNobody {
		if strictest > 1 {
			k.checkServed()
		}
		return
	}
	if k.hasQueue() {
		k.serve(nobody)
	}
	k.checkServed()
}

// release is what a claim sends when it is done.
func (r *rules) release(s *state, o owner) script {
	c := &s.claims[o]
	r.watch.note(s, o, command{what: gives, inDoubt: c.inDoubt && !r.neverTombstones, fence: c.fence})
	k := script{rules: r, state: s}
	first, mine, high := k.first(), c.holds, max(c.fence, k.fence)
	if mine {
		c.holds = false
		k.emptied = !k.taken() || k.hashEndsWithOne
		for i := range k.claims {
			k.claims[i].holds = k.claims[i].holds && !k.emptied
			k.claims[i].released = false
		}
		c.released, k.last = true, high
	}
	c.queued = false
	c.tombstone = c.tombstone || c.inDoubt && !k.neverTombstones
	if first == nobody && !k.ghosts || !mine && first != o {
		return k
	}
	k.prune()
	if _, strictest := k.inside(); strictest == 1 {
		k.heads = first == o
		return k
	}
	if mine && !k.releaseServesNobody || !mine && !k.givingUpServesNobody {
		k.serve(nobody)
	}
	k.checkServed()
	return k
}

// hasQueue says whether there is anything in the queue.
func (k *script) hasQueue() bool {
	for i := range k.claims {
		if c := &k.claims[i]; c.queued || c.tombstone {
			return true
		}
	}
	return k.cruft
}

// renew says whether the owner holds on.
func (r *rules) renew(s *state, o owner) bool {
	c := &s.claims[o]
	r.watch.note(s, o, command{what: renews, fence: c.fence})
	if !c.holds || c.noted != c.fence && !r.renewalIgnoresFence || c.lapsed && !r.renewalRevives {
		return false
	}
	if c.lapsed {
		s.breaks(revived)
	}
	c.granted, c.lapsed = false, false
	return true
}

func (k *script) isOver(c *claim) bool {
	return c.released && !k.overForgetsReleased || c.tombstone && !k.overForgetsTombstones
}

// prune drops holders whose time is over.
func (k *script) prune() {
	due := false
	for i := range k.claims {
		due = due || k.claims[i].holds && k.claims[i].lapsed
	}
	if !due || k.deadAreCounted {
		return
	}
	for i := range k.claims {
		c := &k.claims[i]
		c.holds = c.holds && !c.lapsed && !k.liveAreDropped
		c.lapsed = false
	}
	k.emptied = k.emptied || !k.taken()
}

// fits says whether one more may get in.
func (k *script) fits(o owner) bool {
	n, strictest := k.inside()
	own := k.claims[o].limit()
	if k.ownLimitIsIgnored {
		own = math.MaxInt
	}
	if k.limitInsideIsIgnored {
		strictest = math.MaxInt
	}
	return n == 0 || n < own && n < strictest
}

// serve lets in who waits, from the front, for as long as they fit: self at once, others for as
// long as an ack window. Whoever is dead has left the queue before, in a step of its own.
func (k *script) serve(self owner) {
	k.heads, k.walks = true, true
	passed := false
	for {
		o := k.first()
		if o != nobody && o != self && k.claims[o].marked && k.mutesAreDead {
			passed = passed || k.claims[o].phase != over
			k.claims[o].queued = false
			continue
		}
		if o != nobody && !k.fits(o) && k.passesTheFront {
			o = k.firstThatFits()
		}
		if o == nobody || !k.fits(o) {
			return
		}
		if passed {
			k.breaks(order)
		}
		k.checkOvertaken(o)
		k.claims[o].queued = false
		k.admit(o)
		k.grants(o, self)
		if k.claims[o].limit() == 1 {
			return
		}
	}
}

// firstThatFits breaks a rule.
func (k *script) firstThatFits() owner {
	first := nobody
	for i := range k.claims {
		c := &k.claims[i]
		if c.queued && k.fits(owner(i)) && (first == nobody || c.place < k.claims[first].place) {
			first = owner(i)
		}
	}
	return first
}

// admit lets a claim in.
func (k *script) admit(o owner) {
	fence := k.mint()
	c := &k.claims[o]
	c.holds, c.lapsed, c.granted, c.noted = true, false, false, fence
}

// mint makes a fence above all that last and the lock know of, and tells last.
func (k *script) mint() uint8 {
	k.tick()
	if !k.taken() {
		k.fence = 0
	}
	high := max(k.last, k.fence, k.above)
	if k.takeIgnoresLast {
		high = max(k.fence, k.above)
	}
	fence := k.now
	if fence <= high {
		if fence = high + 1; k.fencesRepeat {
			fence = high
		}
	}
	if k.fence = fence; k.lastMissesFences {
		k.untold = max(k.untold, fence)
		return fence
	}
	k.last = fence
	for i := range k.claims {
		k.claims[i].released = false // last has another content now
	}
	return fence
}

// grants has somebody asked to ask, if it is not self, and has a subscription: else it does so
// by itself.
func (k *script) grants(o, self owner) {
	c := &k.claims[o]
	if c.granted = o != self; o != self && !c.marked {
		k.told[k.tells] = o
		k.tells++
	}
}

// join puts a claim into the queue: at the better one of the place it has and the one it
// brings, or behind everybody.
func (k *script) join(o owner, place uint8) {
	c := &k.claims[o]
	k.joined = true
	switch {
	case c.queued && (place == 0 || place >= c.place || k.joinKeepsWorsePlace):
		return
	case place == 0 || k.joinForgetsPlace:
		for i := range k.claims {
			place = max(place, k.claims[i].place, k.claims[i].known)
		}
		place++
	}
	c.queued, c.place = true, place
}
