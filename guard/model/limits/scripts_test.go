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

// acquire is what a claim sends to get in: share, or acquire for who tolerates nobody.
func (r *rules) acquire(s *state, o owner, queue bool, place uint8) script {
	c := &s.claims[o]
	r.watch.note(s, o, command{what: asks, queue: queue, place: place})
	k := script{rules: r, state: s}
	if c.limit() > 1 {
		k.share(o, queue, place)
	} else {
		k.acquireAlone(o, queue, place)
	}
	return k
}

func (k *script) share(o owner, queue bool, place uint8) {
	c := &k.claims[o]
	if !k.deadAreCounted {
		k.prune()
	}
	switch {
	case c.holds:
		k.confirm(o)
		c.apart = c.apart && k.grantStaysApart
		c.granted, c.lapsed = false, false
		if !k.confirmServesNobody {
			k.serve(nobody)
		}
		k.checkServed()
	case k.isOver(c):
	default:
		k.above = c.above
		if queue {
			k.join(o, place)
		}
		if _, apart, _ := k.inside(); !apart || k.joinsExclusive {
			self := nobody
			if queue {
				self = o
			}
			k.serve(self)
			if !queue && k.fits(o) && (k.first() == nobody || k.passesTheQueue) {
				k.checkOvertaken(o)
				k.admit(o)
			}
			k.checkServed()
		}
	}
}

// confirm makes a new fence for a hold that was granted by somebody who did not know what it must
// be above.
func (k *script) confirm(o owner) {
	c := &k.claims[o]
	if k.above = c.above; c.noted <= c.above && !k.confirmsAnyFence {
		if c.apart {
			k.emptied = true
			k.take(o)
		} else {
			c.noted = k.mint()
		}
	}
	k.above = 0
}

// acquireAlone is the script acquire.
func (k *script) acquireAlone(o owner, queue bool, place uint8) {
	c := &k.claims[o]
	if c.holds {
		k.confirm(o)
		c.granted = false
		return
	}
	k.above = c.above
	if c.mode != older && !k.acquireCountsDead {
		k.prune()
	}
	switch {
	case k.isOver(c):
	case k.taken():
		if queue {
			k.join(o, place)
		}
	default:
		if queue {
			k.join(o, place)
		}
		if k.first() != nobody {
			k.grant(o)
		} else {
			k.checkOvertaken(o)
			k.walks = true
			k.take(o)
		}
	}
}

// release is what a claim sends when it is done: unshare, or release for who tolerates nobody.
func (r *rules) release(s *state, o owner) script {
	c := &s.claims[o]
	r.watch.note(s, o, command{what: gives, inDoubt: c.inDoubt && !r.neverTombstones, fence: c.fence})
	k := script{rules: r, state: s}
	if c.limit() > 1 {
		k.unshare(o)
	} else {
		k.releaseAlone(o)
	}
	return k
}

func (k *script) unshare(o owner) {
	c := &k.claims[o]
	mine, freed, led := c.holds, false, k.first() == o
	high := k.fence
	if c.holds {
		c.holds = false
		freed = !k.taken() || k.hashEndsWithOne
		k.emptied = freed
		for i := range k.claims {
			k.claims[i].holds = k.claims[i].holds && !freed
		}
	}
	tombstone := c.inDoubt && !k.neverTombstones
	if mine && !tombstone && !k.hasQueue() {
		if freed {
			k.remember(o, high)
		}
		return
	}
	c.queued = false
	c.tombstone = c.tombstone || tombstone
	if _, apart, _ := k.inside(); apart {
		k.heads = led
		return
	}
	k.prune()
	if freed {
		k.above = high
	}
	if !k.unshareServesNobody {
		k.serve(nobody)
	}
	if freed && !k.taken() {
		k.remember(o, high)
	}
	k.checkServed()
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

func (k *script) remember(o owner, high uint8) {
	for i := range k.claims {
		k.claims[i].released = false
	}
	k.claims[o].released = true
	if k.lastOutForgetsFence {
		k.untold = high
		return
	}
	k.last = high
}

// releaseAlone is the script release.
func (k *script) releaseAlone(o owner) {
	c := &k.claims[o]
	led, mine, high := k.first() == o, c.holds, max(c.fence, k.fence)
	c.holds, c.queued = false, false
	c.tombstone = c.tombstone || c.inDoubt && !k.neverTombstones
	switch _, apart, _ := k.inside(); {
	case mine:
		k.emptied = true
		for i := range k.claims {
			k.claims[i].released = false
		}
		c.released = true
		k.last = high
		k.grant(nobody)
	case !led:
	case !apart && k.taken() && c.mode != older:
		k.prune()
		if !k.releaseServesNobody {
			k.serve(nobody)
		}
		k.checkServed()
	default:
		k.heads = true
	}
}

// renew is that of either kind. It says whether the owner holds on.
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
	return !k.taken() && c.released && !k.overForgetsReleased || c.tombstone && !k.overForgetsTombstones
}

// prune drops holders whose time is over.
func (k *script) prune() {
	n, apart, _ := k.inside()
	if n == 0 || apart {
		return
	}
	due := false
	for i := range k.claims {
		due = due || k.claims[i].lapsed
	}
	if !due {
		return
	}
	for i := range k.claims {
		c := &k.claims[i]
		c.holds = c.holds && !c.lapsed && !k.liveAreDropped
		c.lapsed = false
	}
	if k.taken() {
		return
	}
	k.emptied = true
	if k.last >= k.fence {
		return
	}
	if k.droppedForgetFences {
		k.untold = max(k.untold, k.fence)
		return
	}
	k.last = k.fence
	for i := range k.claims {
		k.claims[i].released = false
	}
}

// fits says whether one more may get in.
func (k *script) fits(o owner) bool {
	n, apart, strictest := k.inside()
	own := k.claims[o].limit()
	if k.ownLimitIsIgnored {
		own = math.MaxInt
	}
	if k.limitInsideIsIgnored {
		strictest = math.MaxInt
	}
	return n == 0 || apart && k.joinsExclusive || !apart && n < own && n < strictest
}

// serve lets in who waits, from the front, for as long as they fit: self at once, others for as
// long as an ack window. Whoever is dead has left the queue before, in a step of its own.
func (k *script) serve(self owner) {
	k.heads, k.walks = true, true
	for {
		o := k.first()
		if o != nobody && !k.fits(o) && k.passesTheFront {
			o = k.firstThatFits()
		}
		if o == nobody || !k.fits(o) {
			return
		}
		c := &k.claims[o]
		k.checkOvertaken(o)
		c.queued = false
		if c.limit() == 1 {
			k.take(o)
		} else {
			k.admit(o)
		}
		k.grants(o, self)
		if c.limit() == 1 {
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

// admit lets a claim in. The first one takes the lock as an exclusive owner does.
func (k *script) admit(o owner) {
	c := &k.claims[o]
	if !k.taken() {
		k.take(o)
		c.apart = false
		return
	}
	fence := k.mint()
	c.holds, c.apart, c.lapsed, c.noted = true, false, false, fence
}

// mint makes a fence above those of all who are inside.
func (k *script) mint() uint8 {
	k.tick()
	fence, high := k.now, max(k.fence, k.above)
	if fence <= high {
		if fence = high + 1; k.fencesRepeat {
			fence = high
		}
		if k.aheadIsForgotten {
			k.untold = max(k.untold, fence)
		} else {
			k.last = fence
			for i := range k.claims {
				k.claims[i].released = false
			}
		}
	}
	k.fence = fence
	return fence
}

// take gives a free lock to a claim.
func (k *script) take(o owner) {
	for i := range k.claims {
		k.claims[i].released = false // last has another content now
	}
	k.tick()
	fence := max(k.now, k.above+1)
	if fence <= k.last && !k.takeIgnoresLast {
		fence = k.last + 1
	}
	k.fence, k.last = fence, fence
	c := &k.claims[o]
	c.holds, c.apart, c.lapsed, c.granted, c.noted = true, true, false, false, fence
}

// grant gives a free lock to the first in the queue, as an exclusive script does.
func (k *script) grant(self owner) {
	k.walks = true
	o := k.first()
	if o == nobody {
		return
	}
	k.checkOvertaken(o)
	k.claims[o].queued = false
	k.take(o)
	k.grants(o, self)
	k.heads = true
}

// grants has somebody asked to ask, if it is not self.
func (k *script) grants(o, self owner) {
	if k.claims[o].granted = o != self; o != self {
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
