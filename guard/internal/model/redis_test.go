package model

// acquire is the script.
func (r *rules) acquire(s *state, o owner, queue bool, place uint8) {
	r.watch.acquires(r, s, o, queue, place)
	c, floor := &s.claims[o], r.floor(&s.claims[o])
	isFree := s.holder() == nobody && !s.resting
	switch {
	case r.isOver(c):
	case c.holds && s.revoked && !r.confirmsRevoked:
	case c.holds:
		if s.revoked {
			s.breaks(revived)
		}
		c.granted = false
		if s.fence <= floor && !r.confirmsAnyFence {
			r.take(s, o, floor)
		}
	case isFree && (r.takeBarges || !queue && s.first() == nobody):
		s.checkOvertaken(o)
		r.take(s, o, floor)
	default:
		if queue {
			r.join(s, o, place)
			c.mute = s.of(o).mute
		}
		if isFree {
			r.grant(s, o, floor)
		}
	}
}

// floor is what a claim says that its fence must be above.
func (r *rules) floor(c *claim) uint8 {
	if r.dropsFloor || c.phase >= holding {
		return 0
	}
	return c.fence
}

// release is the script.
func (r *rules) release(s *state, o owner) {
	r.watch.releases(r, s, o)
	c := &s.claims[o]
	frees := c.holds || r.releaseFreesAnyones && s.holder() != nobody
	high, led := max(c.fence, s.fence), s.first() == o
	rests := c.keeps && frees && (!s.revoked || r.revokedRests)
	if rests {
		s.owed, s.resting = true, !r.restIsIgnored
		if s.revoked {
			s.breaks(revived)
		}
	}
	if frees {
		for i := range s.claims {
			s.claims[i].holds, s.claims[i].released = false, false
		}
		c.released = true
		s.revoked = false
		if s.last = high; r.releaseForgetsFence || rests && r.restForgetsFence {
			s.last, s.untold = s.fence, high
		}
	}
	c.queued = false
	c.tombstone = c.tombstone || c.inDoubt && !r.neverTombstones
	if !frees {
		if c.keeps && r.lostKeeps && s.holder() == nobody {
			s.resting = true
			s.breaks(kept)
		}
		if led && s.holder() == nobody && !s.resting {
			r.grant(s, nobody, 0)
		}
		return
	}
	if !s.resting || r.restGrants {
		r.grant(s, nobody, high)
	}
}

func (r *rules) isOver(c *claim) bool {
	return c.released && !r.overForgetsReleased || c.tombstone && !r.overForgetsTombstones
}

// join puts a claim into the queue: at the better one of the place it has and the one it
// brings, or behind everybody.
func (r *rules) join(s *state, o owner, place uint8) {
	c := &s.claims[o]
	switch {
	case c.queued && (place == 0 || place >= c.place || r.joinKeepsWorsePlace):
		return
	case place == 0 || r.joinForgetsPlace:
		for i := range s.claims {
			place = max(place, s.claims[i].place, s.claims[i].known)
		}
		place++
	}
	c.queued, c.place = true, place
}

// grant gives a free lock to the first in the queue. self takes it at once, another one
// for as long as an ack window, and is told, unless its place says that it has no subscription:
// then it asks by itself. Whomever it passes over has left the queue before, in a step of its own.
func (r *rules) grant(s *state, self owner, above uint8) {
	o, passed := s.first(), false
	for r.mutesAreDead && o != nobody && o != self && s.claims[o].mute {
		s.claims[o].queued = false
		passed = passed || s.claims[o].phase != over
		o = s.first()
	}
	if o == nobody {
		return
	}
	if passed {
		s.breaks(order)
	}
	c := &s.claims[o]
	s.checkOvertaken(o)
	c.queued = false
	r.take(s, o, above)
	if o != self {
		c.granted, c.told = true, !c.mute
		if r.trustsMessages {
			c.got = s.fence
		}
	}
}

func (r *rules) take(s *state, o owner, above uint8) {
	if s.owed {
		s.breaks(early)
	}
	s.resting, s.revoked = false, false
	for i := range s.claims {
		s.claims[i].released = false // last has another content now
	}
	s.claims[o].holds, s.claims[o].granted = true, false
	s.tick()
	fence := max(s.now, above+1)
	if r.takeIgnoresClock {
		fence = above + 1
	}
	if s.last >= fence && !r.takeIgnoresLast {
		fence = s.last + 1
	}
	s.fence, s.last, s.ahead = fence, fence, fence > s.now
}

// tick lets time pass, but not so much that a clock that is behind catches up.
func (s *state) tick() { s.now += gap / 2 }
