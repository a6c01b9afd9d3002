package model

import "math"

// script is one run of a script, at one time of the server's clock.
type script struct {
	*rules
	*state

	ticked bool
	above  uint8 // what a fence must be above, apart from what Redis knows

	// What the replay looks at.
	ended         bool          // the owner is: nothing changed
	renewed       bool          // a renewal was heeded
	notified      [owners]owner // the owners that were granted the lock for an ack window
	notifiedCount int
	heads         bool // the two in front were notified that they are
	emptied       bool // the lock was free in between
	walks         bool // the queue was walked from the front
	joined        bool // the owner was put into it
}

// tick lets time pass, but not so much that a late clock catches up.
func (k *script) tick() {
	if !k.ticked {
		k.now += gap / 2
		k.ticked = true
	}
}

// floor is what a claim says that its fence must be above: the fence of the lease that it waited for.
func (r *rules) floor(c *claim) uint8 {
	if r.dropsFloor || c.phase >= holding {
		return 0
	}
	return c.fence
}

// floorNow is floor, and the high water.
func (r *rules) floorNow(s *state, o owner) uint8 {
	if s.of(o).high && !r.ignoresHighWater {
		return max(r.floor(&s.claims[o]), s.water)
	}
	return r.floor(&s.claims[o])
}

func (r *rules) hasEnded(c *claim) bool {
	return c.tombstone && !r.endForgetsTombstones
}

// acquire is what a claim sends to get in.
func (r *rules) acquire(s *state, o owner, queue bool, place, floor uint8) script {
	c, mute := &s.claims[o], queue && s.of(o).mute
	r.watch.note(s, o, command{what: asks, queue: queue, place: place, floor: floor, unsubscribed: mute})
	k := script{rules: r, state: s, above: floor}
	k.prune()
	_, strictest := k.inside()
	switch {
	case c.holds:
		k.confirm(o)
		return k
	case !k.hasQueue() && k.fits(o), k.takeBarges && !k.taken():
		if k.ended = k.hasEnded(c); !k.ended {
			k.checkOvertaken(o)
			c.queued = false
			k.admit(o)
		}
		return k
	case k.hasEnded(c):
		k.ended = true
		return k
	}
	if queue {
		k.join(o, place)
		c.marked = mute
	}
	if strictest == 1 && !k.limitInsideIsIgnored {
		return k
	}
	k.serve(o)
	if !queue && k.fits(o) && (k.first() == noOwner || k.passesTheQueue) {
		k.checkOvertaken(o)
		k.admit(o)
	}
	return k
}

// confirm makes a new fence for a hold that was granted by an owner that did not know what it must
// be above.
func (k *script) confirm(o owner) {
	c := &k.claims[o]
	if c.revoked {
		if k.ended = !k.confirmsRevoked; k.ended {
			return
		}
		k.breaks(revived)
	}
	if c.noted <= k.above && !k.confirmsAnyFence {
		k.mint(c)
	}
	k.above = 0
	c.granted = false
	_, strictest := k.inside()
	if strictest > 1 && k.hasQueue() {
		k.serve(noOwner)
	}
}

// release is what a claim sends when it is done.
func (r *rules) release(s *state, o owner) script {
	c := &s.claims[o]
	careful := s.of(o).high && c.fence > s.now && !r.releasesCarelessly
	r.watch.note(s, o, command{what: gives, inDoubt: c.inDoubt && !r.neverTombstones, fence: c.fence, keep: c.keeps, careful: careful})
	k := script{rules: r, state: s}
	first, mine := k.first(), c.holds || k.releaseFreesAnyones && k.taken()
	rests := mine && c.keeps && (!c.revoked || k.revokedRests)
	if rests && c.revoked {
		k.breaks(revived)
	}
	told := careful || c.keeps || c.inDoubt && !k.neverTombstones // the release says how high its fence is
	if told && !k.releaseForgetsFence {
		k.remember(c.fence)
	}
	if mine {
		k.letOut(o, rests, told)
	} else if c.keeps && k.lostKeeps && !k.taken() {
		k.resting = true
	}
	c.queued = false
	c.tombstone = c.tombstone || c.inDoubt && !k.neverTombstones
	if first == noOwner && !k.ghosts || !mine && first != o || !k.hasQueue() {
		return k
	}
	k.prune()
	if _, strictest := k.inside(); strictest == 1 {
		k.heads = first == o
		return k
	}
	k.serve(noOwner)
	return k
}

// letOut is the end of a hold, unless that is to rest.
func (k *script) letOut(o owner, rests, told bool) {
	c := &k.claims[o]
	// Unless it is told, the script looks at its flags first.
	long := told || c.outran || c.revoked || c.limit() > 1 || k.first() != noOwner || k.ghosts || k.cruft
	if long && !k.releaseForgetsFence {
		k.remember(c.noted)
	}
	k.known = k.known || k.of(o).high && c.fence > k.now && k.water > 0 && max(c.fence, c.noted) >= k.top
	c.holds = false
	k.emptied = !k.taken() || k.hashEndsWithOne || k.releaseFreesAnyones
	for i := range k.claims {
		k.claims[i].holds = k.claims[i].holds && !k.emptied
	}
	if rests {
		k.owed, k.resting = true, !k.restIsIgnored
	}
}

// remember notes a fence that is ahead of the clock.
func (k *script) remember(fence uint8) {
	if fence > k.now {
		k.ahead = max(k.ahead, fence)
	}
}

// renew reports whether the owner holds on.
func (r *rules) renew(s *state, o owner) bool {
	c := &s.claims[o]
	r.watch.note(s, o, command{what: renews, fence: c.grant})
	switch {
	case !c.holds, c.noted != c.grant && !r.renewalIgnoresFence, c.lapsed && !r.renewalRevives, c.revoked && !r.renewsRevoked:
		return false
	case c.lapsed, c.revoked:
		s.breaks(revived)
	}
	c.granted, c.lapsed = false, false
	return true
}

// hasQueue reports whether there is anything in the queue.
func (k *script) hasQueue() bool { return k.first() != noOwner || k.cruft }

// prune drops expired holders.
func (k *script) prune() {
	due := false
	for i := range k.claims {
		due = due || k.claims[i].holds && k.claims[i].lapsed
	}
	if !due {
		return
	}
	for i := range k.claims {
		c := &k.claims[i]
		c.holds = c.holds && !c.lapsed && !k.liveAreDropped
		c.lapsed = false
	}
	k.emptied = k.emptied || !k.taken()
}

// fits reports whether one more may get in.
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

// serve lets in the claims that wait, from the front, for as long as they fit: self at once, others for as
// long as an ack window. A dead claim has left the queue before, in a step of its own.
func (k *script) serve(self owner) {
	k.heads, k.walks = true, true
	passed := false
	for {
		o := k.first()
		if o != noOwner && o != self && k.claims[o].marked && k.mutesAreDead {
			passed = passed || k.claims[o].phase != ended
			k.claims[o].queued = false
			continue
		}
		if o == noOwner || !k.fits(o) {
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

// admit lets a claim in.
func (k *script) admit(o owner) {
	if k.owed {
		k.breaks(early)
	}
	k.resting = false
	c := &k.claims[o]
	k.mint(c)
	c.holds, c.lapsed, c.granted, c.revoked = true, false, false, false
}

// mint makes a fence above all that :ended and the lock know of, and remembers it if it is ahead of the clock.
func (k *script) mint(c *claim) {
	k.tick()
	if !k.taken() {
		k.fence = 0
	}
	high := max(k.ahead, k.fence, k.above)
	if k.fenceIgnoresEnded {
		high = max(k.fence, k.above)
	}
	fence := k.now
	if fence <= high || k.takeIgnoresClock {
		if fence = high + 1; k.fencesRepeat {
			fence = high
		}
	}
	c.noted, c.outran, c.low, k.fence = fence, fence > k.now, fence <= k.water && !k.known, fence
	if !k.grantForgetsFence {
		k.remember(fence)
	}
	k.known = k.known || k.water > 0 && fence > k.water
}

// grants has an owner asked to ask, if it is not self, and has a subscription: else it does so
// by itself.
func (k *script) grants(o, self owner) {
	c := &k.claims[o]
	c.granted = o != self
	if o != self && !c.marked {
		k.notified[k.notifiedCount] = o
		k.notifiedCount++
	}
}

// join puts a claim into the queue: at the better one of the place it has and the one it
// brings, or the last one.
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
