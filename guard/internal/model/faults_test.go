package model

// expire is the end of a hold's ttl, or of the ack window. Whoever trusts it has passed
// its deadline before.
func (r *rules) expire(s *state, o owner) bool {
	c := &s.claims[o]
	if !c.holds || c.phase == holding && !c.bereft || c.granted && r.grantHasNoEnd {
		return false
	}
	c.holds, c.granted = false, false
	if c.reply == held && !c.bereft {
		c.reply = heldLate
	}
	return true
}

// passOver takes a claim out of the queue that nobody asks for any more.
func (r *rules) passOver(s *state, o owner) bool {
	c := &s.claims[o]
	was := c.queued && c.phase == over
	c.queued = c.queued && !was
	return was
}

func (r *rules) passOverWanted(s *state, o owner) bool {
	c := &s.claims[o]
	switch {
	case !c.queued || c.phase == over:
		return false
	case s.of(o).mute && !c.mute: // it did not say yet that no message reaches it
	case s.budget.skips == 0:
		return false
	default:
		s.budget.skips--
	}
	c.queued = false
	return true
}

// unsubscribe is the loss of the right to subscribe, or of the connection.
func (r *rules) unsubscribe(s *state, o owner) bool {
	in := s.of(o)
	if o%slots != 0 || in.dead || in.mute || s.budget.mutes == 0 {
		return false
	}
	s.budget.mutes--
	in.mute = true
	return true
}

func (r *rules) subscribe(s *state, o owner) bool {
	in := s.of(o)
	was := o%slots == 0 && in.mute
	in.mute = in.mute && !was
	return was
}

// sendAcquire leaves an acquire on the wire.
func (c *claim) sendAcquire() bool {
	switch {
	case c.phase != waiting:
		return false
	case c.known > 0:
		c.lateAcquire |= placed
	default:
		c.lateAcquire |= unplaced
	}
	return true
}

// sendRelease leaves a release on the wire.
func (c *claim) sendRelease() bool {
	c.lateRelease = c.lateRelease || c.phase == releasing
	return c.phase == releasing
}

func (r *rules) unplacedArrives(s *state, o owner) bool {
	if s.claims[o].lateAcquire&unplaced == 0 {
		return false
	}
	r.acquire(s, o, true, 0)
	return true
}

func (r *rules) placedArrives(s *state, o owner) bool {
	if s.claims[o].lateAcquire&placed == 0 {
		return false
	}
	r.acquire(s, o, true, s.claims[o].known)
	return true
}

func (r *rules) releaseArrives(s *state, o owner) bool {
	if !s.claims[o].lateRelease {
		return false
	}
	r.release(s, o)
	return true
}

func (r *rules) lateLost(s *state, o owner) bool {
	c := &s.claims[o]
	were := c.lateAcquire != 0 || c.lateRelease
	c.lateAcquire, c.lateRelease = 0, false
	return were
}

// crash leaves what is on the wire there.
func (r *rules) crash(s *state, o owner) bool {
	if o%slots != 0 || s.of(o).dead || s.budget.crashes == 0 {
		return false
	}
	for _, o := range [slots]owner{o, o.other()} {
		s.claims[o].sendAcquire()
		s.claims[o].sendRelease()
	}
	s.budget.crashes--
	*s.of(o) = instance{dead: true}
	return true
}

func (r *rules) flush(s *state, o owner) bool {
	if o != 0 || s.budget.flushes == 0 {
		return false
	}
	for i := range s.claims {
		c := &s.claims[i]
		c.bereft = c.phase == holding || c.reply == held
		c.holds, c.granted, c.queued, c.tombstone, c.released = false, false, false, false, false
	}
	s.budget.flushes--
	s.last, s.fence, s.untold, s.flushed = 0, 0, 0, true
	s.resting, s.owed, s.revoked = false, false, false
	s.excused = s.excused || s.now < s.highest()
	return true
}

// stepBack sets Redis's clock back, between grants: a clock that steps back during one
// may come to stand behind fences that were handed over and not yet released.
func (r *rules) stepBack(s *state, o owner) bool {
	if o != 0 || s.budget.steps == 0 || s.holder() != nobody || s.resting {
		return false
	}
	for i := range s.claims {
		if s.claims[i].phase == holding {
			return false
		}
	}
	s.budget.steps--
	s.now = 1
	s.excused = s.excused || max(s.last, s.untold) < s.highest()
	return true
}

func (r *rules) catchUp(s *state, o owner) bool {
	high := max(s.last, s.highest())
	if o != 0 || s.now >= high {
		return false
	}
	s.now = high + gap
	return true
}

// highest is the highest fence that anybody has.
func (s *state) highest() uint8 {
	high := s.top
	for i := range s.claims {
		high = max(high, s.claims[i].got)
	}
	return high
}
