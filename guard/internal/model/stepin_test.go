package model

// beginKept is work that is to keep the lock taken for longer than it takes itself.
func (r *rules) beginKept(s *state, o owner) bool {
	if s.budget.keeps == 0 || s.of(o).line == 0 || s.claims[o].reply != held {
		return false
	}
	s.budget.keeps--
	s.claims[o].keeps = true
	return r.begin(s, o)
}

// endRest is the end of a MinHold.
func (r *rules) endRest(s *state, o owner) bool {
	if o != 0 || !s.owed && !s.resting {
		return false
	}
	s.owed, s.resting = false, false
	return true
}

// revoke is a round trip of somebody who steps in, and names the hold that is there by its fence.
func (r *rules) revoke(s *state, o owner) bool {
	if s.budget.revokes == 0 || !s.claims[o].holds || s.revoked {
		return false
	}
	s.budget.revokes--
	s.named, s.lateBreak = s.fence, false
	r.revokes(s)
	return true
}

// revokes is the script.
func (r *rules) revokes(s *state) {
	o := s.holder()
	if o == nobody || s.revoked || s.fence != s.named && !r.stepsInOnAny {
		return
	}
	if s.fence != s.named {
		s.breaks(astray)
	}
	if s.revoked = true; r.revokeFrees {
		s.claims[o].holds = false
		r.grant(s, nobody, s.fence)
	}
	s.fence++ // a renewal names the fence
}

func (r *rules) breakHold(s *state, o owner) bool {
	if s.budget.breaks == 0 || !s.claims[o].holds {
		return false
	}
	s.budget.breaks--
	s.named, s.lateBreak = s.fence, true
	r.ends(s)
	return true
}

// ends is the script break. Who has the hold does not know, as after a loss of data.
func (r *rules) ends(s *state) {
	o := s.holder()
	if o == nobody || s.fence != s.named && !r.stepsInOnAny {
		return
	}
	if s.fence != s.named {
		s.breaks(astray)
	}
	c := &s.claims[o]
	c.holds, c.granted, c.bereft = false, false, c.phase == holding || c.reply == held
	c.queued, c.tombstone, c.ended = false, true, true
	if !r.breakForgetsFence {
		s.last = max(s.last, s.fence)
	} else {
		s.untold = max(s.untold, s.fence)
	}
	for i := range s.claims {
		s.claims[i].released = false
	}
}

// stepInLate is the same command once more. While the rules are kept, it finds no such hold.
func (r *rules) stepInLate(s *state, o owner) bool {
	if o != 0 || s.named == 0 || s.holder() == nobody || s.revoked && !s.lateBreak {
		return false
	}
	if s.lateBreak {
		r.ends(s)
	} else {
		r.revokes(s)
	}
	return true
}

// askRevoked is for a grant that was revoked, or broken, before its instance asked: it is told that the claim
// is over, gives back what that may have, and goes on with another one.
func (r *rules) askRevoked(s *state, o owner) bool {
	c := &s.claims[o]
	if !s.giveUp(o, releasing) {
		return false
	}
	r.watch.acquires(r, s, o, true, 0)
	c.inDoubt = true
	return true
}

// findRevoked is a message, or a renewal that is refused.
func (r *rules) findRevoked(s *state, o owner) bool {
	c := &s.claims[o]
	return c.phase == holding && c.holds && !c.bereft && s.revoked && s.giveUp(o, lost)
}

func (r *rules) renewRevoked(s *state, o owner) bool {
	if c := &s.claims[o]; !r.renewsRevoked || c.phase != holding || !c.holds || !s.revoked {
		return false
	}
	s.breaks(revived)
	return true
}
